"""Both pages in a real headless Chromium: with data, empty, stale, with errors, live. Pictures of all are kept in build/screenshots."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from dashboards.screenshot import SERVE, settle
from pipelines.doctor import find_browser
from pipelines.processes import spawn, wait_until
from pipelines.settings import Home
from tests import lakehouses, stories

pytestmark = pytest.mark.browser

PICTURES = Path(__file__).parents[2] / "build" / "screenshots"
LIMIT_SECONDS = 60.0
LIMIT_MS = LIMIT_SECONDS * 1000
KILLED, OPEN = "20261121-031702-5d41a0", "20261121-041203-5d41a0"


def now_us():
    return time.time_ns() // 1000


class Keeper(threading.Thread):
    """Writes live file and progress twice a second, as a prober and the stream do."""

    def __init__(self, home, story=None):
        super().__init__(daemon=True)
        self.home, self.story, self.stopping = home, story, threading.Event()

    def run(self):
        while True:
            now = now_us()
            opened = stories.live_open(self.story, now) if self.story else []
            lakehouses.live(self.home, now, open=opened, streams={"up": 24 - len(opened), "down": len(opened), "unmeasured": 0})
            lakehouses.progress(self.home, now - 1_000_000)
            if self.stopping.wait(0.5):
                return


class Site:
    """Pages that are served over a home, by a process of their own."""

    def __init__(self, folder, fill):
        self.home = Home(folder / "home")
        self.home.create()
        self.keeper = fill(self.home)
        self.child = spawn("pages", [sys.executable, "-c", SERVE, str(self.home.path)], folder / "pages.log")

    def __enter__(self):
        if self.keeper:
            self.keeper.start()
        wait_until(lambda: "http://" in self.child.log_tail() or not self.child.is_alive(), LIMIT_SECONDS, "the pages to be served")
        self.url = "http://" + self.child.log_tail().rpartition("http://")[2].split()[0].rstrip("/")
        return self

    def __exit__(self, *_):
        if self.keeper:
            self.keeper.stopping.set()
            self.keeper.join()
        self.child.stop()


def with_data(home):
    stories.killed_leader(now_us() - 3_600_000_000).write(home)
    stories.unclean_election(now_us() - 7_200_000_000).write(home)
    lakehouses.availability(home, now_us())
    return Keeper(home)


def with_open_incident(home):
    keeper = with_data(home)
    keeper.story = stories.open_incident(now_us() - 15_000_000, 9.0)
    keeper.story.write(home)
    return keeper


def with_nothing(_home):
    return None


def with_a_silent_prober(home):
    with_data(home)
    lakehouses.live(home, now_us() - 60_000_000)
    lakehouses.progress(home, now_us() - 90_000_000)


def with_damage(home):
    keeper = with_data(home)
    for table in ("silver.isr_windows", "gold.availability"):
        (home.table(table) / "_delta_log" / f"{0:020d}.json").write_text("{")
    return keeper


@pytest.fixture(scope="module")
def browser():
    path = find_browser()
    assert path is not None, "the tests of the pages need Chromium or Chrome: apt-get install -y chromium, or set LASTACK_BROWSER"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(path), args=["--no-sandbox"])
        yield browser
        browser.close()


def site_fixture(fill):
    @pytest.fixture(scope="module", name=fill.__name__)
    def site(tmp_path_factory):
        with Site(tmp_path_factory.mktemp("site"), fill) as site:
            yield site

    return site


data_site, open_site, empty_site, silent_site, damaged_site = (
    site_fixture(fill) for fill in (with_data, with_open_incident, with_nothing, with_a_silent_prober, with_damage)
)


# An expectation has its own limit, and by default a short one.
expect.set_options(timeout=LIMIT_MS)


@pytest.fixture
def visit(browser):
    """Opens a page and, at the end of the test, checks that it complained of nothing and asked nobody but its own server."""
    contexts, complaints, strangers = [], [], []

    def _visit(site, path="/", scheme="light", width=1280, *, is_whole=False):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(LIMIT_MS)
        page.on("console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda one: None if one.url.startswith((site.url, "data:", "blob:")) else strangers.append(one.url))
        page.goto(site.url + path)
        if not is_whole:
            settle(page)
        return page

    yield _visit
    for context in contexts:
        context.close()
    assert complaints == []
    assert strangers == []


def keep(page, name):
    """Keeps a picture of the whole page."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    height = page.evaluate("document.documentElement.scrollHeight")
    page.set_viewport_size({"width": page.viewport_size["width"], "height": height})
    settle(page)
    page.screenshot(path=str(PICTURES / f"{name}.png"))


def panel(page, name):
    return page.locator(f"section.panel.{name}")


def answer(page):
    """The instant of the server's last answer, as the page has it."""
    return page.locator("[id$=-pulse]").text_content()


def await_refresh(page, times=2):
    for _ in range(times):
        before = answer(page)
        page.wait_for_function("before => document.querySelector('[id$=-pulse]').textContent !== before", arg=before)


def zoom(page, area):
    """Draws a frame over a third of a figure, as people do."""
    box = area.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 3, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 2 / 3, middle + 2, steps=5)
    page.mouse.up()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_overview_shows_states_incidents_availability_and_freshness(with_data, visit, scheme):
    page = visit(with_data, "/", scheme)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    expect(panel(page, "clusters")).to_contain_text("24 streams are served.")
    expect(panel(page, "open")).to_contain_text("No outage is open.")
    expect(panel(page, "incidents")).to_contain_text("Lost: 397 records")
    expect(panel(page, "availability")).to_contain_text("durable write · no retries")
    expect(panel(page, "freshness")).to_contain_text("Measuring")
    expect(page.locator(".banner:visible")).to_have_count(0)
    keep(page, f"overview-{scheme}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_incident_page_draws_every_figure_and_lists_the_evidence(with_data, visit, scheme):
    page = visit(with_data, f"/incidents/{KILLED}", scheme)
    expect(page.get_by_role("heading", name="Broker 2 was not serving")).to_be_visible()
    expect(page.locator("figure:visible .main-svg").first).to_be_visible()
    assert page.locator("figure:visible").count() == 4
    expect(panel(page, "partitions").locator(".ag-row").first).to_be_visible()
    page.get_by_role("tab", name="Probed outages").click()
    expect(panel(page, "evidence").locator(".ag-row:visible").first).to_contain_text("lastack-canary")
    keep(page, f"incident-{scheme}")


def test_a_link_leads_from_the_overview_to_the_incident_and_back(with_data, visit):
    page = visit(with_data)
    page.locator("#overview-incidents-body").get_by_role("link", name=KILLED).click()
    expect(page.get_by_role("heading", name="Broker 2 was not serving")).to_be_visible()
    settle(page)
    assert page.url.endswith(f"/incidents/{KILLED}")
    assert KILLED in page.title()
    page.go_back()
    expect(page.get_by_role("heading", name="Last incidents")).to_be_visible()
    settle(page)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_a_figure_leads_to_the_rows_that_prove_it_and_back(with_data, visit, scheme, width):
    page = visit(with_data, f"/incidents/{KILLED}", scheme, width)
    panel(page, "phases").locator("a.proof").last.click()
    expect(page.get_by_role("heading", name="How it follows")).to_be_visible()
    settle(page)
    expect(panel(page, "formula")).to_contain_text("RTO max")
    panel(page, "rows").locator("summary").first.click()
    expect(panel(page, "rows")).to_contain_text("identity of the outage")
    page.wait_for_function("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    keep(page, f"proof-{scheme}")
    page.go_back()
    expect(page.get_by_role("heading", name="Broker 2 was not serving")).to_be_visible()


def test_nothing_is_cut_off_at_1280_pixels(with_data, visit):
    for path in ("/", f"/incidents/{KILLED}"):
        page = visit(with_data, path)
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_the_switch_of_colours_reaches_figures_and_grids(with_data, visit):
    page = visit(with_data, f"/incidents/{KILLED}", "light")
    figure = page.locator("#incident-phases-waterfall .ytick text").first
    light = figure.evaluate("node => getComputedStyle(node).fill")
    grid = page.locator(".ag-row:visible").first
    light_row = grid.evaluate("node => getComputedStyle(node).backgroundColor")
    page.locator("#scheme").click()
    expect(figure).not_to_have_css("fill", light)
    expect(grid).not_to_have_css("background-color", light_row)


def test_before_anything_ran_both_pages_say_so(with_nothing, visit):
    page = visit(with_nothing)
    expect(panel(page, "incidents")).to_contain_text("No incident recorded yet.")
    expect(panel(page, "clusters")).to_contain_text("No cluster is known yet.")
    keep(page, "overview-empty")
    page = visit(with_nothing, "/incidents/20260101-000000-abcdef")
    expect(page.get_by_role("heading", name="No such incident")).to_be_visible()
    expect(page.get_by_role("link", name="All incidents")).to_be_visible()
    keep(page, "incident-unknown")


def test_a_silent_prober_and_a_stream_that_stands_still_are_said_on_both_pages(with_a_silent_prober, visit):
    page = visit(with_a_silent_prober)
    expect(page.locator(".banner.stale:visible")).to_have_count(2)
    expect(panel(page, "clusters")).to_contain_text("Stale")
    expect(page.locator(".card[data-state=serving]")).to_have_count(0)
    keep(page, "overview-stale")
    page = visit(with_a_silent_prober, f"/incidents/{KILLED}")
    expect(page.locator(".banner.stale:visible")).to_have_count(2)
    keep(page, "incident-stale")


def test_a_damaged_table_is_an_error_in_its_panel_and_the_rest_lives(with_damage, visit):
    page = visit(with_damage)
    expect(panel(page, "availability").get_by_role("alert")).to_contain_text("table gold.availability cannot be read")
    expect(panel(page, "incidents")).to_contain_text("Lost: 397 records")
    keep(page, "overview-error")
    page = visit(with_damage, f"/incidents/{KILLED}")
    expect(panel(page, "replication").get_by_role("alert")).to_contain_text("table silver.isr_windows cannot be read")
    expect(panel(page, "phases").locator("figure")).to_be_visible()
    keep(page, "incident-error")


def test_an_open_outage_has_a_running_clock_and_a_growing_proof(with_open_incident, visit):
    page = visit(with_open_incident)
    expect(panel(page, "clusters")).to_contain_text("Outage open")
    row = panel(page, "open").locator("tbody tr").first
    expect(row).to_contain_text("live, provisional")
    expect(row.get_by_role("link").filter(has_text=OPEN)).to_have_attribute("href", f"/incidents/{OPEN}")
    expect(row.locator("a.proof").first).to_contain_text("at least")
    before = row.locator(".clock").text_content()
    expect(row.locator(".clock")).not_to_have_text(before)
    keep(page, "overview-open")


def test_an_open_incident_refreshes_in_place_and_keeps_the_zoom(with_open_incident, visit):
    page = visit(with_open_incident, f"/incidents/{OPEN}")
    expect(page.locator(".tile").first).to_contain_text("(open)")
    plot = "document.querySelector('#incident-partitions-timeline .js-plotly-plot')"
    page.evaluate(f"{plot}.dataset.mark = 'same'; {plot}.scrollIntoView({{block: 'center'}})")
    zoom(page, page.locator("#incident-partitions-timeline .nsewdrag").first)
    page.wait_for_function(f"{plot}.layout.xaxis.range[0] > 1")
    zoomed = page.evaluate(f"{plot}.layout.xaxis.range")
    proof = page.locator(".tile .value").first.text_content()
    await_refresh(page, 3)
    expect(page.locator(".tile .value").first).not_to_have_text(proof)
    assert page.evaluate(f"{plot}.dataset.mark") == "same"
    assert page.evaluate(f"{plot}.layout.xaxis.range") == zoomed
    keep(page, "incident-open")


def test_a_hidden_tab_asks_nothing_and_a_shown_one_asks_at_once(with_data, visit):
    page = visit(with_data)
    asked = []
    page.on("request", lambda one: asked.append(one.url) if "_dash-update-component" in one.url else None)
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {get: () => window.isAway, configurable: true}); window.isAway = true;"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    # A request that was under way may still end; after it, three polls' time without another one.
    page.wait_for_function("() => { window.steps = (window.steps || 0) + 1; return window.steps > 10; }", polling=200)
    count = len(asked)
    page.wait_for_function("() => { window.steps += 1; return window.steps > 43; }", polling=200)
    assert len(asked) == count
    with page.expect_request("**/_dash-update-component*"):
        page.evaluate("window.isAway = false; document.dispatchEvent(new Event('visibilitychange'))")


def test_when_the_web_process_dies_the_page_says_that_it_is_old_and_stops_its_clocks(browser, tmp_path):
    with Site(tmp_path, with_open_incident) as site:
        page = browser.new_page()
        page.goto(site.url)
        settle(page)
        expect(page.locator("#offline")).to_be_hidden()
        site.child.stop()
        expect(page.locator("#offline")).to_be_visible(timeout=30_000)
        expect(page.locator("#offline")).to_contain_text("has not answered for")
        clock = page.locator(".clock").first.text_content()
        said = page.locator("#offline-text").text_content()
        expect(page.locator("#offline-text")).not_to_have_text(said)
        assert page.locator(".clock").first.text_content() == clock
        page.close()


def test_an_address_that_is_no_page_says_so(with_data, visit):
    page = visit(with_data, "/nothing/here", is_whole=True)
    expect(page.get_by_role("heading", name="No such page")).to_be_visible()


def test_a_picture_of_an_incident_is_one_command(with_data, tmp_path):
    out = tmp_path / "incident.png"
    where = ["--home", str(with_data.home.path), "--incident", KILLED, "--out", str(out), "--height", "800"]
    subprocess.run([sys.executable, "-m", "dashboards.screenshot", *where], check=True)
    assert out.read_bytes().startswith(b"\x89PNG")
    assert out.stat().st_size > 50_000


def test_refreshes_of_a_page_at_rest_send_almost_nothing(with_data, visit):
    page = visit(with_data, f"/incidents/{KILLED}")
    sizes = []
    page.on("response", lambda one: sizes.append(len(one.body())) if "_dash-update-component" in one.url else None)
    await_refresh(page, 2)
    assert sizes
    assert max(sizes) < 8_000
