"""What does a page look like? Takes a picture of one from the outside, in a real headless Chromium: for the README and for people.

It starts the pages over a home on a free loopback port, waits until the page has its data and its figures are drawn, and writes a PNG.
Playwright is a development dependency and is imported only here, where it is needed.

Example: `python -m dashboards.screenshot --home DIR --incident 20261121-031702-5d41a0 --out docs/images/incident.png`.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pipelines.doctor import find_browser
from pipelines.errors import LastackError, UsageError
from pipelines.processes import spawn, wait_until

WIDTH_PX = 1280
READY_SECONDS = 60.0
SERVE = "import sys; from pathlib import Path; from dashboards.server import serve; serve(Path(sys.argv[1]), port=0)"


def take(home: Path, path: str, out: Path, *, scheme: str = "light", height_px: int | None = None) -> None:
    """Writes a PNG of the page at `path` over `home`.

    Args:
        home: the folder of an installation; nothing in it is changed.
        path: the page's address without its host, as `/incidents/<id>`.
        out: the file to write.
        scheme: light or dark.
        height_px: how much of the page from its top; all of it when not given.

    Raises:
        UsageError: there is no browser, or Playwright is not installed.
        TimedOut: the page did not have its data in time.
    """
    browser_path = find_browser()
    if browser_path is None:
        raise UsageError("no browser for a picture of a page: install Chromium, or name one in LASTACK_BROWSER")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise UsageError("a picture of a page needs Playwright, a development dependency: run `make setup`") from error
    with tempfile.TemporaryDirectory(prefix="lastack-screenshot-") as folder, sync_playwright() as playwright:
        log_path = Path(folder) / "pages.log"
        child = spawn("pages", [sys.executable, "-c", SERVE, str(home)], log_path)
        try:
            wait_until(lambda: "http://" in child.log_tail() or not child.is_alive(), READY_SECONDS, "the pages to be served")
            if not child.is_alive():
                raise UsageError(f"the pages could not be served: {child.log_tail(1)}")
            address = child.log_tail().rpartition("http://")[2].split()[0]
            browser = playwright.chromium.launch(executable_path=str(browser_path), args=["--no-sandbox"])
            context = browser.new_context(viewport={"width": WIDTH_PX, "height": height_px or 900}, color_scheme=_scheme(scheme))
            page = context.new_page()
            page.goto(f"http://{address.rstrip('/')}{path}")
            settle(page)
            out.parent.mkdir(parents=True, exist_ok=True)
            if height_px is None:
                # A window as high as the page: grids draw only the rows that are in view.
                page.set_viewport_size({"width": WIDTH_PX, "height": page.evaluate("document.documentElement.scrollHeight")})
                settle(page)
            page.screenshot(path=str(out))
            browser.close()
        finally:
            child.stop()


def settle(page: Any, timeout_seconds: float = READY_SECONDS) -> None:
    """Waits until a page has its first answer, and every figure and grid that is shown is drawn."""
    limit = timeout_seconds * 1000
    page.wait_for_selector("[data-live]:not(.loading)", timeout=limit)
    page.wait_for_function(
        """() => {
            const shown = (node) => node.offsetParent !== null;
            const figures = [...document.querySelectorAll('figure')].filter(shown);
            const grids = [...document.querySelectorAll('.ag-root-wrapper')].filter(shown);
            return figures.every((one) => one.querySelector('.main-svg .xaxislayer-above text, .main-svg .infolayer'))
                && grids.every((one) => one.querySelector('.ag-row'));
        }""",
        timeout=limit,
    )
    page.evaluate("document.fonts.ready")


def _scheme(name: str) -> Any:
    return "dark" if name == "dark" else "light"


def main(arguments: list[str]) -> None:
    """Takes the picture that the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m dashboards.screenshot", description="Writes a PNG of a page.")
    parser.add_argument("--home", type=Path, required=True, help="the folder of the installation")
    parser.add_argument("--incident", help="the incident; the overview when not given")
    parser.add_argument("--out", type=Path, required=True, help="the PNG to write")
    parser.add_argument("--scheme", choices=("light", "dark"), default="light")
    parser.add_argument("--height", type=int, help="pixels from the top; the whole page when not given")
    given = parser.parse_args(arguments)
    path = f"/incidents/{quote(given.incident, safe='')}" if given.incident else "/"
    take(given.home, path, given.out, scheme=given.scheme, height_px=given.height)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except LastackError as error:
        sys.stderr.write(f"lastack: {error}\n")
        sys.exit(error.exit_code)
