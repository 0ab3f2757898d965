"""How is a Kafka cluster probed? The targets of all lanes, over one view of who leads what.

Example: `prepare(place)`, `prober = KafkaProber(place, on_change)`, `await prober.open(deadline)`, then
`prober.target(Kind.WRITE, Lane.RAW, "lastack-canary-write", Pace(100_000, 1_000_000)).issue([flight])`.
"""

import time
from collections.abc import Callable

from pipelines.brokers.base import Shard
from pipelines.brokers.kafka.canary_topics import fit_topics
from pipelines.brokers.kafka.client_properties import load
from pipelines.brokers.kafka.cluster import Cluster
from pipelines.brokers.kafka.gate import Gates
from pipelines.brokers.kafka.leaders import Leaders
from pipelines.brokers.kafka.produce import ACKS_ALL, ACKS_LEADER
from pipelines.brokers.kafka.raw_writes import RawWrites
from pipelines.brokers.kafka.reads import Reads
from pipelines.brokers.kafka.stock_client import StockClient
from pipelines.brokers.kafka.wire import WireError
from pipelines.brokers.probing import LeaderChange, Pace, ProbePlace, Target
from pipelines.domain.observations import Kind, Lane
from pipelines.errors import ConnectionFailed


def prepare(place: ProbePlace) -> list[str]:
    """Makes sure of the canary's topics (`canary_topics`). Returns warnings for people; raises as `fit_topics` does."""
    connection = load(place.cluster.bootstrap, place.cluster.command_config)
    return fit_topics(connection, place.resources, may_alter=place.may_alter, partitions_max=place.shards_max)


class KafkaProber:
    """One cluster, as the canary needs it. All on one event loop."""

    def __init__(self, place: ProbePlace, on_change: Callable[[LeaderChange], None]) -> None:
        connection = load(place.cluster.bootstrap, place.cluster.command_config)
        self._connection = connection
        self._connections_max = place.connections_max
        self._cluster = Cluster(connection)
        self._gates = Gates(connection)
        self._leaders = Leaders(self._cluster, place.resources, on_change)
        self._targets: list[Target] = []

    async def open(self, deadline: float) -> None:
        """Learns who leads what. Raises ConnectionFailed when no broker says so by the deadline (`time.monotonic()`)."""
        try:
            await self._cluster.refresh(deadline, ())
            await self._leaders.open(deadline)
        except WireError as error:
            raise ConnectionFailed(f"{error}; check the address and whether the brokers run") from error

    def shards(self, resource: str) -> list[Shard]:
        """The partitions of a topic."""
        return self._leaders.shards(resource)

    def target(self, kind: Kind, lane: Lane, resource: str, times: Pace) -> Target:
        """Where the probes of a lane go."""
        target: Target
        if lane is Lane.CLIENT:
            target = StockClient(topic=resource, connection=self._connection, leaders=self._leaders)
        elif lane is Lane.READ:
            target = Reads(topic=resource, times=times, leaders=self._leaders, gates=self._gates)
        else:
            target = RawWrites(
                topic=resource,
                acks=ACKS_LEADER if kind is Kind.WRITE else ACKS_ALL,
                times=times,
                leaders=self._leaders,
                gates=self._gates,
                connections_max=self._connections_max,
            )
        self._targets.append(target)
        return target

    async def connect(self, deadline: float) -> None:
        """Makes the connections of all targets, as far as they can be made by the deadline."""
        for target in self._targets:
            await target.open(max(deadline, time.monotonic()))

    async def close(self) -> None:
        """Ends everything."""
        await self._leaders.close()
        for target in self._targets:
            await target.close()
        await self._gates.close()
        await self._cluster.close()
