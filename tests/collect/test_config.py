"""A collector's configuration travels as JSON; a misspelt or ill-typed setting is never ignored."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipelines.brokers.base import ClusterPlace
from pipelines.collect.config import ClusterConfig, CollectorConfig, as_fields
from pipelines.collect.watch import WatchConfig
from pipelines.collect.watch import run as run_watch
from pipelines.domain.clock import Anchor
from pipelines.domain.observations import Blind
from pipelines.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class PollConfig(CollectorConfig):
    brokers: tuple[str, ...] = ()
    every_seconds: float = 1.0
    user: str | None = None


IDENTITY = {"system": "kafka", "cluster_id": "c", "prober_id": "p", "spool": "landing", "anchor": "k:5:6"}
GOOD = IDENTITY | {"brokers": ["a:1", "b:2"], "every_seconds": 2}


def test_it_comes_back_as_it_was_sent() -> None:
    config = PollConfig.from_json(json.dumps(GOOD))

    assert PollConfig.from_json(config.to_json()) == config
    assert config.brokers == ("a:1", "b:2")
    assert config.clock == Anchor("k", 5, 6)


def test_every_run_has_a_boot_id_of_its_own() -> None:
    first, second = PollConfig.from_json(json.dumps(GOOD)), PollConfig.from_json(json.dumps(GOOD))

    assert first.boot_id != second.boot_id


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "expected a JSON object, found list"),
        (json.dumps(GOOD | {"brokes": 1}), "'brokes' is not a setting; known are anchor, boot_id, brokers"),
        (json.dumps({"prober_id": "p"}), "'system' is missing"),
        (json.dumps({"system": "kafka", "prober_id": "p"}), "'cluster_id' is missing"),
        (json.dumps(GOOD | {"prober_id": 3}), "prober_id is 3, expected text"),
        (json.dumps(GOOD | {"brokers": ["a", 1]}), r"brokers\[1\] is 1, expected text"),
        (json.dumps(GOOD | {"every_seconds": True}), "every_seconds is True, expected a number"),
        (json.dumps(GOOD | {"user": 1}), "user is 1, expected text or null"),
        (json.dumps(GOOD | {"rotate_ms": 0.5}), "rotate_ms is 0.5, expected a whole number"),
        (json.dumps(GOOD | {"rotate_ms": -1}), "rotate_ms is -1, expected a number that is not negative"),
        (json.dumps(GOOD | {"rotate_ms": 10**30}), "rotate_ms is 1000000000000000000000000000000, expected a number that"),
        (json.dumps(GOOD | {"every_seconds": -0.5}), "every_seconds is -0.5, expected a number that is not negative"),
        (json.dumps(GOOD | {"every_seconds": float("nan")}), "every_seconds is nan, expected a number that"),
        (json.dumps(GOOD | {"every_seconds": float("inf")}), "every_seconds is inf, expected a number that"),
        (json.dumps(GOOD | {"spool": ""}), "'spool' is empty"),
        (json.dumps(GOOD | {"spool": "a\x00b"}), "spool is .*, expected text"),
        (json.dumps(GOOD)[:-1] + ',"spool":"elsewhere"}', "'spool' is here twice"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        PollConfig.from_json(text)


def test_a_cluster_s_place_travels_whole() -> None:
    settings = {"controllers": ("c1:9093", "c2:9093"), "zookeeper": ("z:2181/a=b",)}
    place = ClusterPlace(system="s", bootstrap="a:1", command_config=Path("/c.properties"), metrics=("http://m",), settings=settings)
    config = ClusterConfig(**IDENTITY | as_fields(place))

    assert ClusterConfig.from_json(config.to_json()).place == place


def test_a_setting_of_the_system_that_names_nothing_is_refused() -> None:
    config = ClusterConfig(**IDENTITY, bootstrap="a:1", settings=("c1:9093",))

    with pytest.raises(UsageError, match="'c1:9093' is not NAME=VALUE"):
        _ = config.place


@pytest.mark.parametrize("name", ["period_ms", "lambda_ms"])
def test_a_watch_that_would_never_rest_is_refused(name: str) -> None:
    shared = {one: value for one, value in GOOD.items() if one not in ("brokers", "every_seconds")}
    with pytest.raises(UsageError, match=f"{name} is 0, expected 10 to 3600000"):
        run_watch(WatchConfig.from_json(json.dumps(shared | {"bootstrap": "127.0.0.1:1", name: 0})))


def test_an_anchor_that_is_none_is_named() -> None:
    config = PollConfig.from_json(json.dumps(GOOD | {"anchor": "noon"}))

    with pytest.raises(UsageError, match="anchor 'noon'"):
        _ = config.clock


def test_the_spool_is_the_one_that_was_configured(tmp_path: Path) -> None:
    config = PollConfig.from_json(json.dumps(GOOD | {"spool": str(tmp_path / "landing"), "boot_id": "b"}))
    with config.open_spool("poll") as spool:
        record = spool.write(Blind, cause="stall", started_at_us=1, ended_at_us=2)

    assert (record.collector, record.cluster_id, record.clock_id) == ("poll", "c", "k")
    assert [path.name for path in (tmp_path / "landing").iterdir()] == ["poll-p-b-00000000.jsonl"]
