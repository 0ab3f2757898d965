"""What is the canary told?

Example: `CanaryConfig(system="kafka", cluster_id="c", prober_id="p", spool="landing", anchor=Anchor.now().text(),
bootstrap="127.0.0.1:9092")` probes every partition of the topics `lastack-canary-write`, `-durable` and `-client` every 100 ms in all
four lanes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from pipelines.collect.config import ClusterConfig
from pipelines.domain.observations import Kind, Lane
from pipelines.errors import UsageError

PERIOD_MS_MIN = 10
TOPIC_PREFIX = "lastack-canary"


class LaneSpec(NamedTuple):
    """A lane by its name: the kind of service it asks for, how, and the suffix of the topic that it uses."""

    kind: Kind
    lane: Lane
    suffix: str


LANES = {
    "write": LaneSpec(Kind.WRITE, Lane.RAW, "write"),
    "durable_write": LaneSpec(Kind.DURABLE_WRITE, Lane.RAW, "durable"),
    "client": LaneSpec(Kind.DURABLE_WRITE, Lane.CLIENT, "client"),
    "read": LaneSpec(Kind.READ, Lane.READ, "durable"),
}
"""Each lane that writes has a topic of its own, so that offsets there are contiguous; reads read what the durable lane wrote."""


def topic_of(lane: str, prefix: str = TOPIC_PREFIX) -> str:
    """The topic that a lane uses."""
    return f"{prefix}-{LANES[lane].suffix}"


def written_topics(lanes: Iterable[str] = LANES) -> dict[str, tuple[Kind, Lane]]:
    """Each topic with the kind and the lane that write to it: what a read-back reads."""
    return {topic_of(name): (LANES[name].kind, LANES[name].lane) for name in lanes if name != "read"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryConfig(ClusterConfig):
    """How a cluster is probed.

    `period_ms` and `lambda_ms` hold for all lanes; `client_period_ms` and `read_period_ms` may make those two lanes slower.
    `connections_max` is per raw lane: so many partitions have a connection each. `stall_ms` is how late the prober may come round
    before it counts as blind. `may_alter` is leave to change topics that exist.
    """

    lanes: tuple[str, ...] = tuple(LANES)
    topic_prefix: str = TOPIC_PREFIX
    period_ms: int = 100
    client_period_ms: int | None = None
    read_period_ms: int | None = None
    lambda_ms: int = 1000
    stall_ms: int = 50
    flush_seconds: float = 10.0
    trouble_flush_seconds: float = 1.0
    connections_max: int = 256
    partitions_max: int = 64
    may_alter: bool = False

    def check(self) -> None:
        """Raises UsageError for settings that make no sense together."""
        for name in self.lanes:
            if name not in LANES:
                raise UsageError(f"lane {name!r} is not known; expected some of {', '.join(LANES)}")
        if not self.lanes:
            raise UsageError(f"no lane is named; expected some of {', '.join(LANES)}")
        if "read" in self.lanes and "durable_write" not in self.lanes:
            raise UsageError("the read lane reads what the durable_write lane wrote; name both")
        for name, value in (("period_ms", self.period_ms), *self._slower()):
            if not PERIOD_MS_MIN <= value <= 3_600_000:
                raise UsageError(f"{name} is {value}, expected {PERIOD_MS_MIN} to 3600000")
        if not 10 <= self.lambda_ms <= 600_000:
            raise UsageError(f"lambda_ms is {self.lambda_ms}, expected 10 to 600000")
        for name, value in (
            ("stall_ms", self.stall_ms),
            ("connections_max", self.connections_max),
            ("partitions_max", self.partitions_max),
        ):
            if value < 1:
                raise UsageError(f"{name} is {value}, expected 1 or more")

    def period_us(self, name: str) -> int:
        """The period of a lane."""
        slower = {"client": self.client_period_ms, "read": self.read_period_ms}.get(name)
        return (slower or self.period_ms) * 1000

    def topic(self, name: str) -> str:
        """The topic that a lane uses."""
        return topic_of(name, self.topic_prefix)

    def topics(self) -> tuple[str, ...]:
        """The topics of all lanes."""
        return tuple(dict.fromkeys(self.topic(name) for name in self.lanes))

    def _slower(self) -> list[tuple[str, int]]:
        given = {"client_period_ms": self.client_period_ms, "read_period_ms": self.read_period_ms}
        return [(name, value) for name, value in given.items() if value is not None]
