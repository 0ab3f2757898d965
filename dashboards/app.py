"""How do the pages become an application? Dash with local assets, and beside it /metrics and /healthz as plain routes.

Every module of `dashboards.pages` has a `PAGE`; it is registered here, and nothing else has to know it. Plain routes are registered
before Dash, which answers every path that is left with its page. No JVM and no Spark is in this process: the tables are read through
`pipelines.serving`.

Example: `create_app(Home(Path("/var/lib/lastack"))).server` is a WSGI application.
"""

import importlib
import pkgutil
from pathlib import Path
from typing import Any

import dash
import dash_mantine_components as dmc
import flask
from dash import Dash, dcc, html

from dashboards import pages
from dashboards.components import wild
from dashboards.panels import Page, Refresher, page_layout
from pipelines import __version__
from pipelines.exporter import Exporter
from pipelines.serving import Serving
from pipelines.settings import Home

INDEX = """<!DOCTYPE html>
<html lang="en">
    <head>
        {%metas%}
        <title>{%title%}</title>
        {%favicon%}
        {%css%}
    </head>
    <body>
        {%app_entry%}
        <footer>
            {%config%}
            {%scripts%}
            {%renderer%}
        </footer>
    </body>
</html>"""
THEME = {
    "fontFamily": 'Inter, "Segoe UI", system-ui, -apple-system, Roboto, "Helvetica Neue", Arial, sans-serif',
    "primaryColor": "blue",
    "defaultRadius": "sm",
}


def create_app(home: Home) -> Dash:
    """The application over the lakehouse of one home."""
    serving = Serving(home)
    server = flask.Flask(__name__)
    _plain_routes(server, Exporter(serving))
    app = Dash(
        "lastack",
        server=server,  # type: ignore[arg-type] # its annotation leaves out what its documentation allows
        title="Lastack",
        update_title="",
        use_pages=True,
        pages_folder="",
        assets_folder=str(Path(__file__).parent / "assets"),
        suppress_callback_exceptions=True,
        serve_locally=True,
        enable_mcp=False,
        index_string=INDEX,
        meta_tags=[{"name": "viewport", "content": "width=device-width, initial-scale=1"}],
    )
    dash.page_registry.clear()
    refresher = Refresher(serving)
    for page in all_pages():
        _register(page)
        refresher.register(app, page)
    dash.register_page("not_found_404", layout=_not_found)  # type: ignore[no-untyped-call]
    app.layout = _shell
    return app


def all_pages() -> list[Page]:
    """The page of every module in dashboards/pages."""
    names = sorted(module.name for module in pkgutil.iter_modules(pages.__path__))
    return [importlib.import_module(f"dashboards.pages.{name}").PAGE for name in names]


def _register(page: Page) -> None:
    def layout(**path: str) -> Any:
        return page_layout(page, **path)

    where = {"path_template": page.path} if "<" in page.path else {"path": page.path}
    dash.register_page(page.name, name=page.name, title=page.title, layout=layout, **where)  # type: ignore[no-untyped-call]


def _plain_routes(server: flask.Flask, exporter: Exporter) -> None:
    @server.get("/metrics")
    def metrics() -> flask.Response:
        body, content_type = exporter.metrics(flask.request.headers.get("Accept", ""))
        return flask.Response(body, content_type=content_type, headers={"Cache-Control": "no-store"})

    @server.get("/healthz")
    def healthz() -> flask.Response:
        reason = exporter.unhealthy()
        status = 200 if reason is None else 503
        return flask.Response(
            f"{reason or 'ok'}\n", status=status, content_type="text/plain; charset=utf-8", headers={"Cache-Control": "no-store"}
        )


def _shell() -> Any:
    header = html.Header(
        [
            html.A("Skip to content", href="#content", className="skip"),
            dcc.Link([html.Span("▟", className="logo", **wild(aria_hidden="true")), "Lastack"], href="/", className="brand"),
            html.Nav([dcc.Link("Overview", href="/")], **wild(aria_label="Pages")),
            html.Div(
                [
                    html.Span(id="updated", className="quiet", title="when this page last heard from its server"),
                    html.Span(id="utc-now", className="utc", title="the server's clock, UTC"),
                    dmc.ColorSchemeToggle(
                        id="scheme",
                        lightIcon="☀",
                        darkIcon="☾",
                        variant="default",
                        size="md",
                        **wild(aria_label="Switch between light and dark"),
                    ),
                ],
                className="header-right",
            ),
        ],
        className="topbar",
    )
    offline = html.Div(
        [
            html.Span(className="glyph hatched"),
            html.Div([html.Strong("This page is old. "), html.Span("Lastack's web process does not answer.", id="offline-text")]),
        ],
        id="offline",
        className="banner stale",
        role="alert",
        hidden=True,
    )
    content = html.Main([offline, dash.page_container], id="content", tabIndex=-1)
    footer = html.Div(f"Lastack {__version__} · all times UTC unless said otherwise", className="footer quiet")
    return dmc.MantineProvider(
        dmc.AppShell([dmc.AppShellHeader(header), dmc.AppShellMain([content, footer])], header={"height": 52}, padding=0),
        theme=THEME,
        defaultColorScheme="auto",
    )


def _not_found(**_: Any) -> Any:
    return html.Div(
        [html.H1("No such page", tabIndex=-1), html.P("There is nothing at this address."), dcc.Link("Overview", href="/")],
        className="page nothing",
    )
