"""What does the stream's own process need to be told, and what does it run?

The rule: like a collector, the stream is configured by one JSON file that names files with secrets, never the secrets. With a
cluster to read from it also reads the canary topics back; without one it only derives what lands.
"""

import uuid
from dataclasses import dataclass, field
from pathlib import Path

from pipelines.brokers.systems import log_reader
from pipelines.collect.config import ClusterConfig
from pipelines.collect.lifecycle import stop_signals
from pipelines.collect.spool import Spool
from pipelines.errors import UsageError
from pipelines.readback import ReadBacks
from pipelines.settings import Home
from pipelines.stream import Options, run


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConfig(ClusterConfig):
    """The stream of one installation. `topics` are `name=kind/lane` of the canary topics to read back; none: no read-backs."""

    home: str
    prober_id: str = "readback"
    bootstrap: str = ""
    topics: tuple[str, ...] = ()
    trigger_seconds: float = 1.0
    readback_seconds: float = 3600.0
    memory: str = "1g"
    boot_id: str = field(default_factory=lambda: uuid.uuid4().hex)


def main(config: StreamConfig) -> None:
    """Runs the stream until SIGTERM or SIGINT, then drains what is left and stops."""
    home = Home(Path(config.home))
    options = Options(trigger_seconds=config.trigger_seconds, readback_seconds=config.readback_seconds, memory=config.memory)
    with stop_signals() as stopping:
        if not config.topics:
            run(home, options, stopping)
            return
        with config.open_spool("readback") as spool:
            run(home, options, stopping, _readbacks(config, spool))


def _readbacks(config: StreamConfig, spool: Spool) -> ReadBacks:
    reader = log_reader(config.place)
    topics = {}
    for one in config.topics:
        name, _, written = one.partition("=")
        kind, _, lane = written.partition("/")
        if not (name and kind and lane):
            raise UsageError(f"topics: {one!r} is none, expected NAME=KIND/LANE, such as lastack-canary-write=write/raw")
        topics[name] = (kind, lane)
    return ReadBacks(
        cluster_id=config.cluster_id,
        topics=topics,
        reader=reader,
        spool=spool,
        clock=config.clock,
        every_seconds=config.readback_seconds,
    )
