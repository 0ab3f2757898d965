"""What a broker system lacks is refused in one line, or never started; nothing but its entry is asked."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipelines.brokers import systems
from pipelines.brokers.base import ClusterPlace, ControlPlace
from pipelines.brokers.entry import Entry
from pipelines.collect.canary.config import LANES, CanaryConfig
from pipelines.collect.canary.run import run as run_canary
from pipelines.domain.clock import Anchor
from pipelines.domain.observations import Kind, Lane
from pipelines.errors import UsageError
from pipelines.parts import MeasuredCluster, collectors, stream
from pipelines.settings import Home
from pipelines.streaming import StreamConfig


def reached(place: ClusterPlace, warn: Callable[[str], None]) -> str:
    warn(f"{place.bootstrap} is slow")
    return "c"


def nothing(*_: object) -> Any:
    raise AssertionError("what is not asked for is not made")


POOR = Entry(reach=reached, lanes=frozenset({(Kind.WRITE, Lane.RAW)}), prepare_probing=nothing, prober=nothing)
"""All that a system must have: it can be reached, and written to."""
PLACE = ClusterPlace(system="poor", bootstrap="h:1")


@pytest.fixture(autouse=True)
def poor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(systems.SYSTEMS, "poor", POOR)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: systems.watchable(PLACE), "'poor' cannot be watched; systems that can: kafka"),
        (lambda: systems.log_reader(PLACE), "'poor' has no records that can be read back; systems that have: kafka"),
        (lambda: systems.metric_source("poor", "http://h:1", None), "'poor' has no metrics that can be read; systems that have: kafka"),
        (
            lambda: systems.control_sources(ControlPlace(cluster=PLACE, cluster_id="c", clock=Anchor.now())),
            "'poor' has no control plane that can be read; systems that have: kafka",
        ),
        (
            lambda: systems.reach(dataclasses.replace(PLACE, settings={"zookeeper": ("z:1",)}), nothing),
            "'zookeeper' is not a setting of 'poor'; known are none",
        ),
        (lambda: systems.reach(dataclasses.replace(PLACE, metrics=("http://h:1",)), nothing), "'poor' has no metrics"),
        (lambda: systems.entry("abacus"), "'abacus' is not a broker system that Lastack knows; known are kafka, poor"),
    ],
)
def test_what_a_system_lacks_is_one_line_that_says_who_has_it(call: Callable[[], object], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        call()
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)


def test_a_cluster_that_is_reached_says_its_name_and_its_warnings() -> None:
    told: list[str] = []
    assert systems.reach(PLACE, told.append) == "c"
    assert told == ["h:1 is slow"]


def test_a_lane_that_a_system_lacks_is_refused_before_anything_is_prepared(tmp_path: Path) -> None:
    config = CanaryConfig(
        system="poor",
        cluster_id="c",
        prober_id="p",
        spool=str(tmp_path),
        anchor=Anchor.now().text(),
        bootstrap="h:1",
        lanes=("client",),
    )
    with pytest.raises(UsageError, match=r"'poor' cannot serve the lane 'client' \(durable_write/client\); it can serve write/raw"):
        run_canary(config)


def parts_of(home: Home, place: ClusterPlace) -> dict[str, Any]:
    cluster, anchor = MeasuredCluster(place, "c"), Anchor.now()
    return {one.name: one.config for one in (*collectors(home, cluster, anchor), stream(home, cluster, anchor))}


def test_what_a_system_lacks_is_not_started(tmp_path: Path) -> None:
    parts = parts_of(Home(tmp_path), PLACE)

    assert sorted(parts) == ["canary", "stream"]
    assert (parts["canary"].system, parts["canary"].lanes) == ("poor", ("write",))
    assert parts["stream"].topics == ()


def test_of_kafka_everything_is_started_and_told_the_same_place(tmp_path: Path) -> None:
    place = ClusterPlace(system="kafka", bootstrap="h:1", metrics=("http://h:2/jolokia",), settings={"controllers": ("h:3", "h:4")})
    parts = parts_of(Home(tmp_path), place)

    assert sorted(parts) == ["canary", "control-plane", "metrics", "stream", "watch"]
    assert {name: one.place for name, one in parts.items() if name != "metrics"} == dict.fromkeys(parts.keys() - {"metrics"}, place)
    assert {one.system for one in parts.values()} == {"kafka"}
    assert parts["canary"].lanes == tuple(LANES)
    assert isinstance(parts["stream"], StreamConfig)
    assert parts["stream"].topics == (
        "lastack-canary-write=write/raw",
        "lastack-canary-durable=durable_write/raw",
        "lastack-canary-client=durable_write/client",
    )
