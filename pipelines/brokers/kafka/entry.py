"""What does Kafka have? Everything that Lastack can use, in KRaft and in ZooKeeper mode.

Example: `KAFKA.watchable(ClusterPlace(system="kafka", bootstrap="127.0.0.1:9092"))` is a `KafkaWatch`.
"""

from pipelines.brokers.base import ClusterPlace
from pipelines.brokers.entry import Entry
from pipelines.brokers.kafka.client_properties import load
from pipelines.brokers.kafka.control import control_sources
from pipelines.brokers.kafka.jolokia import Jolokia
from pipelines.brokers.kafka.log_reader import KafkaLogReader
from pipelines.brokers.kafka.prober import KafkaProber, prepare
from pipelines.brokers.kafka.reach import reach
from pipelines.brokers.kafka.settings import NAMES
from pipelines.brokers.kafka.watching import KafkaWatch
from pipelines.domain.observations import Kind, Lane


def _watch(place: ClusterPlace) -> KafkaWatch:
    return KafkaWatch(load(place.bootstrap, place.command_config))


def _log_reader(place: ClusterPlace) -> KafkaLogReader:
    return KafkaLogReader(load(place.bootstrap, place.command_config))


KAFKA = Entry(
    reach=reach,
    lanes=frozenset(
        {
            (Kind.WRITE, Lane.RAW),
            (Kind.DURABLE_WRITE, Lane.RAW),
            (Kind.DURABLE_WRITE, Lane.CLIENT),
            (Kind.READ, Lane.READ),
        }
    ),
    prepare_probing=prepare,
    prober=KafkaProber,
    settings=NAMES,
    watchable=_watch,
    metric_source=Jolokia,
    control_sources=control_sources,
    log_reader=_log_reader,
)
