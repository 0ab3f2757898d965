"""Which records are in these bytes of a log, and where do whole batches end?

The rule: a log, a snapshot and an answer to Fetch are the same thing, record batches one after the other. `read` returns the
whole and undamaged ones from the start, and how many bytes they take; what follows is a batch that is not there in full yet
(the log is being written), or a torn one (the writer died). It is never read in part: whoever follows a log comes back later.

Example: 150 bytes that hold a batch of 106 and the first 44 bytes of another give one batch and 106.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from kafka.errors import CorruptRecordError
from kafka.record.default_records import DefaultRecordBatch

from pipelines.errors import RetryableError

HEADER = struct.Struct(">qiibIhi")
"""Base offset, length of what follows, leader epoch, magic, CRC, attributes, last offset delta: how every batch begins."""
LENGTH_AT = struct.Struct(">qi")
SMALLEST = 61
"""A batch without records (org.apache.kafka.common.record.DefaultRecordBatch.RECORD_BATCH_OVERHEAD)."""
LARGEST = 64 * 1024 * 1024
"""No batch of a metadata log comes near it: a length above is garbage."""


class DamagedLog(RetryableError):
    """A batch is whole by its length, but its contents are not."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of records. `records` are (key, value) pairs in order of their offsets, from `base_offset` without gaps."""

    base_offset: int
    next_offset: int
    epoch: int
    timestamp_ms: int
    is_control: bool
    records: tuple[tuple[bytes | None, bytes | None], ...]
    size: int
    crc: int


def read(data: bytes | memoryview) -> tuple[list[Batch], int]:
    """The whole batches at the start of `data`, and the number of bytes that they take.

    Args:
        data: bytes of a log, from the beginning of a batch.

    Raises:
        DamagedLog: a batch that is followed by another one is damaged. At the end of the data it counts as not there yet.
    """
    batches: list[Batch] = []
    position = 0
    view = memoryview(data)
    for size in _sizes(view):
        batch = _batch(view[position : position + size])
        if batch is None:
            if position + size + SMALLEST <= len(view):
                offset = LENGTH_AT.unpack_from(view, position)[0]
                raise DamagedLog(f"the batch at offset {offset} is damaged (its checksum is wrong), and the log goes on after it")
            break
        batches.append(batch)
        position += size
    return batches, position


def _sizes(view: memoryview) -> Iterator[int]:
    position = 0
    while len(view) - position >= SMALLEST:
        length = LENGTH_AT.unpack_from(view, position)[1]
        size = LENGTH_AT.size + length
        if not SMALLEST <= size <= LARGEST or position + size > len(view):
            return
        yield size
        position += size


def _batch(data: memoryview) -> Batch | None:
    """The batch, None when its checksum (CRC-32C) is wrong. Raises DamagedLog when it is right and the batch makes no sense."""
    base_offset, _, epoch, _, crc, _, _ = HEADER.unpack_from(data)
    batch = DefaultRecordBatch(bytes(data))
    if not batch.validate_crc():
        return None
    try:
        records = tuple((record.key, record.value) for record in batch)
    except (CorruptRecordError, UnicodeDecodeError, struct.error) as error:
        raise DamagedLog(f"the batch at offset {base_offset} cannot be read: {error}") from error
    return Batch(base_offset, batch.next_offset, epoch, batch.max_timestamp, batch.is_control_batch, records, len(data), crc)
