"""Metadata logs for tests: recorded from real clusters (`golden/`), and written record by record with Kafka's own definitions."""

import shutil
import struct
from pathlib import Path

from kafka.record.default_records import DefaultRecordBatchBuilder

from pipelines import jars
from pipelines.brokers.kafka.batches import Batch, read
from pipelines.brokers.kafka.definitions import Definitions

GOLDEN = Path(__file__).parent / "golden"


def definitions():
    pinned = jars.ensure("kafka")
    return Definitions.of_jars(pinned.path_of("kafka-metadata"), pinned.path_of("kafka-clients"))


def golden_folder(name, to):
    """A recorded folder as a node has it; the recordings carry `.bin` behind their names."""
    folder = to / "__cluster_metadata-0"
    folder.mkdir()
    for one in (GOLDEN / name).glob("*.bin"):
        shutil.copyfile(one, folder / one.name.removesuffix(".bin"))
    return folder


def golden_batches(name, file):
    batches, _ = read((GOLDEN / name / f"{file}.bin").read_bytes())
    return batches


def batch_bytes(offset, timestamp_ms, values, *, epoch=1):
    """A batch as a controller writes it, from (name, version, fields) or raw bytes."""
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=False, producer_id=-1, producer_epoch=-1, base_sequence=-1, batch_size=1 << 20
    )
    for index, value in enumerate(values):
        builder.append(index, timestamp_ms, None, value, [])
    data = bytearray(builder.build())
    # The base offset and the leader epoch are set where a log appends, and are not part of the checksum.
    struct.pack_into(">q", data, 0, offset)
    struct.pack_into(">i", data, 12, epoch)
    return bytes(data)


def batch(offset, timestamp_ms, values, *, epoch=1) -> Batch:
    (one,), _ = read(batch_bytes(offset, timestamp_ms, values, epoch=epoch))
    return one
