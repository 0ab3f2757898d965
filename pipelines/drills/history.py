"""What is a drill judged by? Everything that happened, as plain data: what was done, what the witnesses saw, what the tables say.

The rule: instants are microseconds since the epoch, UTC, on one clock; those of the witnesses are whole milliseconds of the host's wall
clock, which was `clock_error_us` away from that clock at most. A history can be written to a file and judged again from there.

Example: `History.parse(json.loads(path.read_text()))` of a kept drill gives the claims that the drill gave.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Self, TypeVar

from pipelines.domain.clock import microseconds
from pipelines.drills.records import Ack, CanaryAcks, Consumed, Placement, Stored

Row = dict[str, Any]
Known = TypeVar("Known", Ack, Consumed)
"""A record that a client knows of."""


@dataclass(frozen=True, slots=True)
class Act:
    """An action that was done to one target. `stops`: whatever it hits serves nothing from that instant on."""

    action: str
    target: str
    label: str
    before_at_us: int
    after_at_us: int
    verified_at_us: int
    stops: bool = False
    placement: Placement = field(default_factory=dict)

    def led(self) -> set[tuple[str, str]]:
        """The partitions that the target led."""
        return {_split(name) for name, one in self.placement.items() if one["leader"] == self.target}

    def followed(self) -> set[tuple[str, str]]:
        """The partitions that it followed in sync."""
        return {_split(name) for name, one in self.placement.items() if self.target in one["isr"] and one["leader"] != self.target}


@dataclass(frozen=True, slots=True)
class Witnessed:
    """What a witness was told, and what is on the brokers' disks in the end. `is_read`: the disks were read; `is_compacted`: its topic
    forgets records by policy."""

    topic: str
    acks: int
    acked: tuple[Ack, ...]
    stored: tuple[Stored, ...]
    failed: int = 0
    is_read: bool = True
    is_compacted: bool = False
    consumed: tuple[Consumed, ...] = ()

    def consumed_and_gone(self) -> dict[int, list[Consumed]]:
        """The records that a consumer had read and that are not there any more, by partition; empty where nobody has looked."""
        return self._missing(self.consumed)

    def gone(self) -> dict[int, list[Ack]]:
        """The acknowledged records that are not there, by partition; empty where nobody has looked."""
        return self._missing(self.acked)

    def _missing(self, records: Iterable[Known]) -> dict[int, list[Known]]:
        if not self.is_read:
            return {}
        there = {(one.partition, one.value) for one in self.stored}
        found: dict[int, list[Known]] = {}
        for one in records:
            if (one.partition, one.value) not in there:
                found.setdefault(one.partition, []).append(one)
        return found


@dataclass(frozen=True, slots=True)
class History:
    """One run of one drill."""

    drill: str
    mode: str
    cluster_id: str
    steady_at_us: int
    ended_at_us: int
    clock_error_us: int
    acts: tuple[Act, ...]
    roles: Mapping[str, list[str]]
    witnesses: tuple[Witnessed, ...]
    tables: Mapping[str, list[Row]]
    canaries: Mapping[str, list[Stored]] = field(default_factory=dict)
    """What is on the disks of the canary topics."""
    canary_acks: tuple[CanaryAcks, ...] = ()
    """What our own prober wrote down as acknowledged."""

    def rows(self, table: str) -> list[Row]:
        """The rows of a table; none where nobody has written it."""
        return self.tables.get(table, [])

    def document(self) -> dict[str, Any]:
        """The whole as JSON."""
        return asdict(self)

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Self:
        """The inverse of `document`."""
        plain = {name: document[name] for name in ("drill", "mode", "cluster_id", "steady_at_us", "ended_at_us", "clock_error_us")}
        kinds: dict[str, Any] = {"acked": Ack, "stored": Stored, "consumed": Consumed}
        witnesses = (
            Witnessed(**(one | {name: tuple(kind(*each) for each in one[name]) for name, kind in kinds.items()}))
            for one in document["witnesses"]
        )
        return cls(
            **plain,
            acts=tuple(Act(**one) for one in document["acts"]),
            roles=document["roles"],
            witnesses=tuple(witnesses),
            tables=document["tables"],
            canaries={topic: [Stored(*one) for one in records] for topic, records in document["canaries"].items()},
            canary_acks=tuple(CanaryAcks(*one) for one in document["canary_acks"]),
        )


def row_of(row: Mapping[str, Any]) -> Row:
    """A row of a table with instants as microseconds and days as text, so that it is JSON."""
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return microseconds(value)
    return value if value is None or isinstance(value, str | int | float | bool | list) else str(value)


def _split(name: str) -> tuple[str, str]:
    topic, _, partition = name.rpartition("/")
    return topic, partition
