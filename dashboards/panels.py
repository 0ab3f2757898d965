"""How does a page stay live, and stay a page when a part of it fails? The contract between pages and the application.

A page is a list of panels. A panel says which parts it has (a body, figures, grids) and how to build a `View` from a `Request`. The
rules, which no page has to think of:

- One refresh is one request: all panels read the same `Snapshot`, so a page never mixes versions of a table.
- A panel that fails shows its error in its own place; the others live. What people can mend is said in one sentence; a bug gets
  an id that is in the log.
- Only what changed is sent, into components that stay where they are, so that nothing flickers and nobody's zoom is lost.
- The browser asks (assets/lastack.js): every 2 s, not while the tab is hidden, and not again before the answer is there.

Example: a panel with one figure has three outputs: its body's children, the figure, and the style that hides an empty figure.
"""

import hashlib
import json
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dash_ag_grid as dag
import plotly.graph_objects as go
import structlog
from dash import ClientsideFunction, Dash, Input, Output, Patch, State, dcc, html, no_update
from plotly.utils import PlotlyJSONEncoder

from dashboards import components, palette
from dashboards.components import wild
from dashboards.palette import Theme
from pipelines import ddl
from pipelines.errors import LakehouseError, LastackError
from pipelines.serving import Row, Serving, Snapshot

HIDDEN = {"display": "none"}
GRAPH_CONFIG: Any = {"displaylogo": False, "responsive": True}
GRID_THEME = """themeQuartz.withParams({
    backgroundColor: 'var(--surface)', foregroundColor: 'var(--ink)', headerBackgroundColor: 'var(--sunken)',
    headerTextColor: 'var(--quiet)', borderColor: 'var(--line)', fontFamily: 'var(--mantine-font-family)', fontSize: 13,
    headerFontSize: 12, headerFontWeight: 550, cellHorizontalPadding: 12, wrapperBorderRadius: 6
})"""
"""The grid in the page's own colours, light and dark alike."""

GRID_OPTIONS = {
    "theme": {"function": GRID_THEME},
    "rowHeight": 34,
    "headerHeight": 36,
    "enableCellTextSelection": True,
    "tooltipShowDelay": 300,
    "suppressFieldDotNotation": True,
}
MAX_GRID_PX = 480
VIEWS_KEPT = 64
MOVING = frozenset({"annotations", "height", "yaxis", "yaxis2"})
"""Parts of a figure's layout that change while its subject goes on, and that nobody zooms: the rows, and what stands behind them."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Request:
    """What a panel is built from: one view of the lakehouse, the page's path variables, the colours."""

    snapshot: Snapshot
    theme: Theme
    path: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class View:
    """What a panel shows now. Figures and grids that are not given are hidden."""

    body: Any = None
    figures: Mapping[str, go.Figure] = field(default_factory=dict)
    rows: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    is_problem: bool = False


@dataclass(frozen=True, slots=True)
class Sent:
    """A value as the browser gets it. Its fingerprint is "frame/content"; the frame is empty but for figures."""

    value: Any
    fingerprint: str

    def change(self, seen: str | None) -> Any:
        """What a browser needs that has the value of a fingerprint: nothing, the part that moves, or all of it."""
        if seen == self.fingerprint:
            return no_update
        frame = self.fingerprint.partition("/")[0]
        if not frame or seen is None or seen.partition("/")[0] != frame:
            return self.value
        # dcc.Graph writes a zoom into its figure's layout. A whole figure would take it away; what is left alone stays.
        patch = Patch()
        patch["data"] = self.value["data"]
        for name in MOVING & self.value["layout"].keys():
            patch["layout"][name] = self.value["layout"][name]
        return patch


Values = dict[tuple[str, str], Sent]
"""(component, property) to its value."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table that can be sorted and filtered: AG Grid's column definitions, and the field that names a row."""

    columns: tuple[dict[str, Any], ...]
    row_id: str
    label: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A part of a page that is read, fails and is refreshed as one."""

    name: str
    title: str | None
    build: Callable[[Request], View]
    hint: str | None = None
    figures: tuple[str, ...] = ()
    grids: Mapping[str, Grid] = field(default_factory=dict)
    arrange: Callable[[Mapping[str, Any]], Any] | None = None
    """How its parts are laid out, by name; one below the other where not given."""
    key: Callable[[Request], Hashable | None] | None = None
    """What it depends on beside tables, address and colours; where that is None, or this is not given, it is built each time."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page: where it is, what it is called, which panels it has and how they are laid out."""

    name: str
    path: str
    title: Callable[..., str]
    panels: tuple[Panel, ...]
    layout: Callable[[Mapping[str, Any]], Any]
    absent: Callable[[Request], Any] = lambda _request: None
    """What is shown instead of everything, where the path names something that is not there; else None."""


def page_layout(page: Page, **path: str) -> Any:
    """The page before its first refresh: every panel in its place, empty."""
    slots = {panel.name: _slot(page, panel) for panel in page.panels}
    return html.Div(
        [
            dcc.Store(id=_id(page, "path"), data=path),
            dcc.Store(id=_id(page, "tick")),
            dcc.Store(id=_id(page, "seen"), data={}),
            dcc.Store(id=_id(page, "answer")),
            html.Div(id=_id(page, "pulse"), hidden=True),
            html.Div(id=_id(page, "absent")),
            html.Div(page.layout(slots), id=_id(page, "present")),
        ],
        className="page loading",
        **wild(data_live=page.name),
    )


class Refresher:
    """Answers the refreshes of all pages. Thread safe; keeps what panels built as long as nothing that they read has changed."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Values] = OrderedDict()

    def register(self, app: Dash, page: Page) -> None:
        """Makes a page live."""
        outputs = [Output(one, prop) for one, prop in _outputs(page)]
        app.callback(
            [*outputs, Output(_id(page, "seen"), "data"), Output(_id(page, "answer"), "data")],
            Input(_id(page, "tick"), "data"),
            State(_id(page, "path"), "data"),
            State(_id(page, "seen"), "data"),
            prevent_initial_call=True,
        )(lambda tick, path, seen: self.answer(page, tick or {}, path or {}, seen or {}))
        app.clientside_callback(  # type: ignore[no-untyped-call]
            ClientsideFunction("lastack", "answered"),
            Output(_id(page, "pulse"), "children"),
            Input(_id(page, "answer"), "data"),
            prevent_initial_call=True,
        )

    def answer(self, page: Page, tick: Mapping[str, Any], path: Mapping[str, str], seen: Mapping[str, str]) -> list[Any]:
        """The values of all outputs of a page, `no_update` for those that the browser has; then what it has now, and when.

        Args:
            page: the page that asks.
            tick: what the browser says with its question: its colour scheme, and when it asked.
            path: the variables in the page's address.
            seen: fingerprints of what the browser has, by output.
        """
        theme = palette.THEMES.get(str(tick.get("scheme")), palette.LIGHT)
        with self._serving.snapshot() as snapshot:
            values = self.values(page, Request(snapshot, theme, path))
            at = {"at_us": snapshot.now_us, "asked": tick.get("at")}
        prints = {f"{one}.{prop}": value.fingerprint for (one, prop), value in values.items()}
        changed = [value.change(seen.get(f"{one}.{prop}")) for (one, prop), value in values.items()]
        return [*changed, prints, at]

    def values(self, page: Page, request: Request) -> Values:
        """The value of each (component, property) of a page."""
        absent = _guarded(None, lambda: page.absent(request))
        values: Values = _printed(
            {(_id(page, "absent"), "children"): absent, (_id(page, "present"), "style"): {} if absent is None else HIDDEN}
        )
        for panel in page.panels:
            values |= self._panel_values(page, panel, request) if absent is None else _printed(_view_values(page, panel, View()))
        return values

    def _panel_values(self, page: Page, panel: Panel, request: Request) -> Values:
        given = panel.key(request) if panel.key else None
        if given is None:
            return _printed(_view_values(page, panel, _built(panel, request)))
        key = (page.name, panel.name, request.theme.name, tuple(sorted(request.path.items())), _versions(request.snapshot), given)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        view = _built(panel, request)
        values = _printed(_view_values(page, panel, view))
        if not view.is_problem:
            with self._lock:
                self._kept[key] = values
                while len(self._kept) > VIEWS_KEPT:
                    self._kept.popitem(last=False)
        return values


def _versions(snapshot: Snapshot) -> tuple[int | str | None, ...]:
    """What the request reads, as one word a table; a table that cannot be read is a panel's matter."""
    found: list[int | str | None] = []
    for table in ddl.table_names():
        try:
            found.append(snapshot.version(table))
        except LakehouseError:
            found.append("damaged")
    return tuple(found)


def _view_values(page: Page, panel: Panel, view: View) -> dict[tuple[str, str], Any]:
    """The values of one panel's outputs."""
    values: dict[tuple[str, str], Any] = {(_id(page, panel.name, "body"), "children"): view.body}
    for name in panel.figures:
        figure = view.figures.get(name)
        values[_id(page, panel.name, name), "figure"] = figure if figure is not None else go.Figure()
        values[_id(page, panel.name, name, "box"), "style"] = HIDDEN if figure is None else {"height": f"{figure.layout.height}px"}
    for name in panel.grids:
        rows = view.rows.get(name)
        values[_id(page, panel.name, name), "rowData"] = list(rows or ())
        values[_id(page, panel.name, name, "box"), "style"] = HIDDEN if not rows else {"height": f"{_grid_px(rows)}px"}
    return values


def _printed(values: Mapping[tuple[str, str], Any]) -> Values:
    """The values as they are sent, with fingerprints: JSON is made once, however many browsers ask."""
    return {key: Sent(plain := _plain(value), _fingerprint(plain)) for key, value in values.items()}


def _frame(figure: Mapping[str, Any]) -> Mapping[str, Any]:
    """What of a figure does not move from refresh to refresh while its subject goes on."""
    return {name: part for name, part in figure["layout"].items() if name not in MOVING}


def _built(panel: Panel, request: Request) -> View:
    built = _guarded(panel.name, lambda: panel.build(request))
    return built if isinstance(built, View) else View(built, is_problem=True)


def _guarded(panel: str | None, build: Callable[[], Any]) -> Any:
    """What `build` returns, or the problem that stands in its place; nothing for the page as a whole, whose panels say it."""
    try:
        return build()
    except LastackError as error:
        return components.problem(str(error)) if panel else None
    except Exception as error:
        # One broken panel never blanks a page; the id leads from what people see to the stack trace.
        error_id = uuid.uuid4().hex[:8]
        log.exception("panel failed", panel=panel, id=error_id)
        return (
            components.problem(f"A bug in Lastack: {type(error).__name__}; the stack trace is in the log.", error_id=error_id)
            if panel
            else None
        )


def _outputs(page: Page) -> list[tuple[str, str]]:
    outputs = [(_id(page, "absent"), "children"), (_id(page, "present"), "style")]
    for panel in page.panels:
        outputs.append((_id(page, panel.name, "body"), "children"))
        for name in panel.figures:
            outputs += [(_id(page, panel.name, name), "figure"), (_id(page, panel.name, name, "box"), "style")]
        for name in panel.grids:
            outputs += [(_id(page, panel.name, name), "rowData"), (_id(page, panel.name, name, "box"), "style")]
    return outputs


def _slot(page: Page, panel: Panel) -> Any:
    parts: dict[str, Any] = {"body": html.Div(id=_id(page, panel.name, "body"), className="body")}
    for name in panel.figures:
        graph = dcc.Graph(
            id=_id(page, panel.name, name), figure=go.Figure(), config=GRAPH_CONFIG, responsive=True, style={"height": "100%"}
        )
        parts[name] = html.Figure(graph, id=_id(page, panel.name, name, "box"), style=HIDDEN, **wild(aria_label=panel.title or name))
    for name, grid in panel.grids.items():
        parts[name] = html.Div(_grid(page, panel, name, grid), id=_id(page, panel.name, name, "box"), style=HIDDEN)
    content = panel.arrange(parts) if panel.arrange else list(parts.values())
    if panel.title is None:
        return html.Div(content, className=f"bare {panel.name}")
    heading = [html.H2(panel.title)] + ([html.P(panel.hint, className="hint")] if panel.hint else [])
    return html.Section([html.Div(heading, className="heading"), html.Div(content)], className=f"panel {panel.name}")


def _grid(page: Page, panel: Panel, name: str, grid: Grid) -> Any:
    return dag.AgGrid(
        id=_id(page, panel.name, name),
        columnDefs=list(grid.columns),
        rowData=[],
        getRowId=f"params.data.{grid.row_id}",
        defaultColDef={"sortable": True, "resizable": True, "suppressHeaderMenuButton": True},
        dashGridOptions=GRID_OPTIONS,
        style={"height": "100%", "width": "100%"},
    )


def _grid_px(rows: Sequence[Row]) -> int:
    return min(MAX_GRID_PX, 36 + 34 * len(rows) + 18)


def _id(page: Page, *parts: str) -> str:
    return "-".join((page.name, *parts))


def _plain(value: Any) -> Any:
    """A component or figure as the JSON that the browser gets."""
    return json.loads(json.dumps(value, cls=PlotlyJSONEncoder))


def _fingerprint(plain: Any) -> str:
    is_figure = isinstance(plain, dict) and plain.keys() >= {"data", "layout"}
    return f"{_hash(_frame(plain)) if is_figure else ''}/{_hash(plain)}"


def _hash(plain: Any) -> str:
    return hashlib.blake2b(json.dumps(plain, sort_keys=True).encode(), digest_size=8).hexdigest()
