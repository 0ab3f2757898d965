"""What must a broker system offer so that what is in its logs can be proven? The newcomer's list, third part (after `base`, `probing`).

The rule: a `LogReader` says from where to where each shard's log goes, and gives every record between two positions, neither fewer nor
others: a shard that cannot be told, or a record that is gone before it is read, makes the whole question fail, since what is silently
left out would be called neither present nor lost. It decides nothing: which positions are read, and what a record proves, is ours.

Positions are whole numbers here that rise from record to record of a shard; the first one of a log need not be 0, and there may be
gaps. A system whose positions are not numbers maps them, one to one and in order.

Example: `ranges(["lastack-canary-durable"])[Shard("lastack-canary-durable", "0")]` is `LogRange(0, 1042)`;
`records(spark, {shard: 700}, {shard: 1000})` is a DataFrame of up to 300 rows.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pipelines.brokers.base import Shard

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class LogRange:
    """Where a shard's log begins and where what is committed of it ends.

    `log_start`: the first position. `high_watermark`: the position after the last committed record. `topic_id`: whose log it is, where
    the system says so; a resource that was made anew has another identity.
    """

    log_start: int
    high_watermark: int
    topic_id: str | None = None


class LogReader(Protocol):
    """Reads the canary's records back, for `pipelines.readback`. Used by one thread at a time, which may wait."""

    def ranges(self, resources: Collection[str]) -> Mapping[Shard, LogRange]:
        """The range of every shard of some resources; of a resource that does not exist, none. Raises LastackError when one of them
        cannot be told now."""

    def records(self, spark: "SparkSession", starts: Mapping[Shard, int], ends: Mapping[Shard, int]) -> "DataFrame":
        """Every record of each shard from its start (included) to its end (excluded), in any order. Both name the same shards.

        Columns: resource and shard (STRING), position (LONG), value (STRING; NULL where there is none). Reading it raises
        PySparkException when a record between start and end is not there any more.
        """
