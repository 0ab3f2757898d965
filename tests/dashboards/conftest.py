"""A home in a temporary folder, a fixed present, and pages as text."""

import json
import shutil

import pytest
from dash import no_update

from dashboards.panels import Refresher
from pipelines.serving import Serving
from pipelines.settings import Home
from tests import lakehouses, stories

NOW_US = 1_795_000_000_000_000


@pytest.fixture
def home(tmp_path):
    home = Home(tmp_path / "home")
    home.create()
    return home


@pytest.fixture(scope="session")
def measured_once(tmp_path_factory):
    """A cluster that is served and measured, with two incidents behind it. For those who only look."""
    home = Home(tmp_path_factory.mktemp("measured") / "home")
    home.create()
    stories.killed_leader(NOW_US - 3_600_000_000).write(home)
    stories.unclean_election(NOW_US - 7_200_000_000).write(home)
    lakehouses.availability(home, NOW_US)
    lakehouses.live(home, NOW_US - 300_000)
    lakehouses.progress(home, NOW_US - 2_000_000)
    return home


@pytest.fixture
def measured(measured_once, home):
    """The same, for those who change it."""
    shutil.copytree(measured_once.path, home.path, dirs_exist_ok=True)
    return home


class Seen:
    """What a browser has after its refreshes of one page."""

    def __init__(self, home, page, now_us=NOW_US, scheme="light", **path):
        self.now_us = now_us
        self.refresher = Refresher(Serving(home, lambda: self.now_us))
        self.page, self.path, self.scheme = page, path, scheme
        self.values, self.prints, self.changed = {}, {}, set()
        self.refresh()

    def refresh(self):
        *values, self.prints, self.answer = self.refresher.answer(self.page, {"scheme": self.scheme}, self.path, self.prints)
        names = list(self.prints)
        self.changed = {name for name, value in zip(names, values, strict=True) if value is not no_update}
        self.values |= {name: value for name, value in zip(names, values, strict=True) if value is not no_update}

    def panel(self, name):
        """The text of a panel's body."""
        return " ".join(" ".join(text_of(self.values[f"{self.page.name}-{name}-body.children"])).split())

    def figure(self, panel, name):
        return self.values[f"{self.page.name}-{panel}-{name}.figure"]

    def rows(self, panel, name):
        return self.values[f"{self.page.name}-{panel}-{name}.rowData"]

    def is_shown(self, panel, name):
        return self.values[f"{self.page.name}-{panel}-{name}-box.style"] != {"display": "none"}

    def json(self):
        return json.dumps(self.values)


def text_of(component):
    """Every text in a component's JSON, in order."""
    if isinstance(component, dict):
        yield from text_of(component.get("props", {}).get("children"))
    elif isinstance(component, list):
        for one in component:
            yield from text_of(one)
    elif component is not None:
        yield str(component)


@pytest.fixture
def seen():
    return Seen
