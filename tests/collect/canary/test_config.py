"""What the canary is told makes sense, or is named."""

import json

import pytest

from pipelines.collect.canary.config import CanaryConfig, written_topics
from pipelines.errors import UsageError

IDENTITY = {"system": "kafka", "cluster_id": "c", "prober_id": "p", "spool": "landing", "anchor": "k:5:6"}
GOOD = IDENTITY | {"bootstrap": "127.0.0.1:9092"}


def config(**changed: object) -> CanaryConfig:
    return CanaryConfig.from_json(json.dumps(GOOD | changed))


def test_by_default_all_lanes_probe_ten_times_a_second() -> None:
    one = config()
    one.check()

    assert [(name, one.topic(name), one.period_us(name)) for name in one.lanes] == [
        ("write", "lastack-canary-write", 100_000),
        ("durable_write", "lastack-canary-durable", 100_000),
        ("client", "lastack-canary-client", 100_000),
        ("read", "lastack-canary-durable", 100_000),
    ]
    assert one.topics() == ("lastack-canary-write", "lastack-canary-durable", "lastack-canary-client")
    assert written_topics(one.lanes) == {
        "lastack-canary-write": ("write", "raw"),
        "lastack-canary-durable": ("durable_write", "raw"),
        "lastack-canary-client": ("durable_write", "client"),
    }


def test_two_lanes_may_be_slower() -> None:
    one = config(period_ms=10, client_period_ms=200, read_period_ms=50)
    one.check()

    assert [one.period_us(name) for name in one.lanes] == [10_000, 10_000, 200_000, 50_000]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"lanes": ["writes"]}, "lane 'writes' is not known; expected some of write, durable_write, client, read"),
        ({"lanes": []}, "no lane is named"),
        ({"lanes": ["read"]}, "the read lane reads what the durable_write lane wrote"),
        ({"period_ms": 9}, "period_ms is 9, expected 10"),
        ({"client_period_ms": 5}, "client_period_ms is 5"),
        ({"lambda_ms": 1}, "lambda_ms is 1"),
        ({"partitions_max": 0}, "partitions_max is 0, expected 1 or more"),
        ({"connections_max": 0}, "connections_max is 0"),
        ({"stall_ms": 0}, "stall_ms is 0"),
    ],
)
def test_what_makes_no_sense_is_named(changed: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        config(**changed).check()
