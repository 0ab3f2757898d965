import plotly.graph_objects as go
from dash import Patch, html

from dashboards.palette import DARK
from dashboards.panels import Page, Panel, View
from pipelines.errors import LakehouseError


def page_of(*panels, **more):
    return Page("p", "/p", lambda **_: "P", tuple(panels), lambda slots: list(slots.values()), **more)


def raising(error):
    def build(_request):
        raise error

    return build


def test_a_panel_that_fails_by_a_bug_shows_an_id_that_is_in_the_log_and_the_others_live(home, seen, capsys):
    page = page_of(Panel("bad", "Bad", raising(ZeroDivisionError("x"))), Panel("good", "Good", lambda _request: View("fine")))
    shown = seen(home, page)
    said = shown.panel("bad")
    assert "A bug in Lastack: ZeroDivisionError" in said
    error_id = said.rpartition("(id ")[2].rstrip(") ")
    assert error_id in capsys.readouterr().out
    assert shown.panel("good") == "fine"


def test_what_people_can_mend_is_said_in_its_own_words(home, seen):
    shown = seen(home, page_of(Panel("bad", "Bad", raising(LakehouseError("table t is damaged")))))
    assert shown.panel("bad") == "✖ This panel has no data. table t is damaged"


def test_only_what_changed_is_sent(home, seen):
    texts = iter(["a", "a", "b"])
    shown = seen(
        home, page_of(Panel("one", "One", lambda _request: View(next(texts))), Panel("two", "Two", lambda _request: View("t")))
    )
    shown.refresh()
    assert shown.changed == set()
    shown.refresh()
    assert shown.changed == {"p-one-body.children"}


def test_a_panel_with_a_key_is_built_once_while_its_tables_rest_and_again_after_a_failure(home, seen):
    built = []

    def build(_request):
        built.append(1)
        if len(built) == 1:
            raise LakehouseError("not now")
        return View(html.P("there"))

    shown = seen(home, page_of(Panel("one", "One", build, key=lambda _request: "key")))
    for _ in range(3):
        shown.refresh()
    assert len(built) == 2
    assert shown.panel("one") == "there"


def test_a_figure_that_goes_on_is_sent_without_its_axis_so_that_a_zoom_stays(home, seen):
    heights = iter([300, 320])

    def build(request):
        figure = go.Figure(go.Bar(x=[next(numbers)]), {"height": next(heights), "font": {"color": request.theme.text}})
        return View(figures={"one": figure})

    numbers = iter([1, 2])
    shown = seen(home, page_of(Panel("one", "One", build, figures=("one",))))
    whole = shown.figure("one", "one")
    assert whole["data"][0]["x"] == [1]
    shown.refresh()
    patch = shown.figure("one", "one")
    assert isinstance(patch, Patch)
    touched = {tuple(one["location"]) for one in patch.to_plotly_json()["operations"]}
    assert touched == {("data",), ("layout", "height")}


def test_a_figure_in_other_colours_is_sent_whole(home, seen):
    def build(request):
        return View(figures={"one": go.Figure(layout={"height": 300, "font": {"color": request.theme.text}})})

    shown = seen(home, page_of(Panel("one", "One", build, figures=("one",))))
    shown.scheme = "dark"
    shown.refresh()
    assert shown.figure("one", "one")["layout"]["font"]["color"] == DARK.text


def test_of_a_page_that_is_absent_no_panel_is_built(home, seen):
    page = page_of(Panel("one", "One", raising(AssertionError("built"))), absent=lambda _request: html.P("gone"))
    shown = seen(home, page)
    assert shown.panel("one") == ""
    assert shown.values["p-present.style"] == {"display": "none"}
