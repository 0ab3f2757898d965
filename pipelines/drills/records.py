"""What is a witness told, and what does it tell? The settings of its client, and its records as plain data.

The rule: by how much a client may be silent for longer than it is not served follows from its settings alone.

Example: a request that nobody answers (1,000 ms), a question for the leader that goes to the same dead broker (1,000 ms), two backoffs
of 200 ms with a fifth more each (480 ms) and the turn of the keys (100 ms) are `CLIENT_ADDS_MS`, 2,580 ms.
"""

from typing import NamedTuple, TypedDict

KRAFT, ZOOKEEPER = "kraft", "zookeeper"
MODES = (KRAFT, ZOOKEEPER)
"""How a cluster keeps its metadata."""

REQUEST_MS = 1000
"""How long it waits for an answer before it takes the connection for dead."""
BACKOFF_MS = 200
"""What it waits at most before it reconnects, or asks for metadata again."""
JITTER = 1.2
"""Kafka's clients spread their backoff by a fifth."""
PACE_MS = 100
"""Its keys come round so often that every partition is written to within this."""
KEYS = 60
CLIENT_ADDS_MS = 2 * REQUEST_MS + 2 * BACKOFF_MS * JITTER + PACE_MS
"""By how much it may be silent for longer than it is not served: a request that nobody answers, a question for the leader that goes to
the same dead broker, and two backoffs that follow each other."""


class Ack(NamedTuple):
    """A record that was acknowledged, and when the callback ran (whole milliseconds of the wall clock)."""

    partition: int
    offset: int
    value: str
    at_ms: int


class Consumed(NamedTuple):
    """A record that a consumer had read, so that it was committed then, and when it said so (whole milliseconds)."""

    partition: int
    offset: int
    value: str
    at_ms: int


class Stored(NamedTuple):
    """A record on the leader's disk, and when the leader appended it (whole milliseconds of its wall clock)."""

    partition: int
    offset: int
    value: str
    appended_ms: int


class CanaryAcks(NamedTuple):
    """A run of canaries that our own prober was acknowledged: sequences and offsets rise by one together."""

    topic: str
    shard: str
    boot_id: str
    first_sequence: int
    last_sequence: int
    first_offset: int


class Placed(TypedDict):
    """Who led, who was in sync and who has a copy of a partition, by the cluster's metadata."""

    leader: str | None
    isr: list[str]
    replicas: list[str]


Placement = dict[str, Placed]
"""By `topic/partition`."""
