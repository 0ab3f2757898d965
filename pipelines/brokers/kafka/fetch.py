"""How are single records of many partitions read again in one request, and did the right bytes come back?

The rule: a read probe asks a leader for the record at a known offset of each partition, in one Fetch request that never waits
(max_wait 0), by Kafka's own message definitions (common/message/FetchRequest.json) in version 11, which Kafka 2.3 to 4.x
speak and which has no tagged fields. A partition is served when its answer has no error and starts with a batch at that very
offset that holds the very bytes that were written. A leader that knows less than was acknowledged (a new one, before its
followers have asked) answers without the record: that is not served yet.

Example: a record of 90 bytes was acknowledged at offset 512; the answer's first batch has base offset 512 and holds them:
served.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from kafka.protocol.consumer import FetchRequest

API_KEY = FetchRequest.API_KEY
VERSION = 11
PARTITION_BYTES = 1024
"""Enough for several canary records; the broker sends whole batches from the wanted offset on."""

NOT_READABLE_YET = "NOT_READABLE_YET"
OTHER_RECORD = "OTHER_RECORD"

_HEAD = struct.Struct(">iiiibiii")  # replica, max wait, min bytes, max bytes, isolation, session, its epoch, count of topics
_PARTITION = struct.Struct(">iiqqi")  # index, leader epoch, offset, log start (followers only), max bytes
_TAIL = struct.pack(">ih", 0, 0)  # no forgotten topics, no rack
_ANSWER_HEAD = struct.Struct(">ihii")  # throttle time, error, session, count of topics
_ANSWER = struct.Struct(">ihqqqi")  # index, error, high watermark, last stable offset, log start, count of aborted
_BATCH_HEAD = struct.Struct(">qi")  # base offset, length of what follows
_REPLICA_AND_SIZE = struct.Struct(">ii")  # preferred read replica, size of the records


class Wanted(NamedTuple):
    """A record to read: `term` is the leader epoch that we know of."""

    partition: int
    offset: int
    term: int
    value: bytes


class FetchAnswer(NamedTuple):
    """Partition to (error number, high watermark, records); `error` is the whole request's."""

    error: int
    throttle_ms: int
    partitions: dict[int, tuple[int, int, bytes]]


def body(topic: str, wanted: Sequence[Wanted]) -> bytes:
    """The request for these records of one topic, each partition at most once."""
    name = topic.encode()
    parts = [
        _HEAD.pack(-1, 0, 0, PARTITION_BYTES * len(wanted), 0, 0, -1, 1),
        struct.pack(f">h{len(name)}si", len(name), name, len(wanted)),
    ]
    parts += [_PARTITION.pack(one.partition, one.term, one.offset, -1, PARTITION_BYTES) for one in wanted]
    parts.append(_TAIL)
    return b"".join(parts)


def read(frame: memoryview) -> FetchAnswer:
    """The answer's body. Raises struct.error when it is not one."""
    throttle_ms, error, _, topics = _ANSWER_HEAD.unpack_from(frame, 0)
    at = _ANSWER_HEAD.size
    found = {}
    for _ in range(topics):
        (size,) = struct.unpack_from(">h", frame, at)
        at += 2 + size
        (count,) = struct.unpack_from(">i", frame, at)
        at += 4
        for _ in range(count):
            index, code, high_watermark, _, _, aborted = _ANSWER.unpack_from(frame, at)
            at += _ANSWER.size + 16 * max(0, aborted)
            _, length = _REPLICA_AND_SIZE.unpack_from(frame, at)
            at += _REPLICA_AND_SIZE.size
            length = max(0, length)
            found[index] = (code, high_watermark, bytes(frame[at : at + length]))
            at += length
    return FetchAnswer(error, throttle_ms, found)


def judge(wanted: Wanted, high_watermark: int, records: bytes) -> str | None:
    """Why an answer without error did not serve the record; None when it did."""
    if len(records) < _BATCH_HEAD.size:
        return NOT_READABLE_YET if high_watermark <= wanted.offset else OTHER_RECORD
    offset, length = _BATCH_HEAD.unpack_from(records)
    first_batch = records[: _BATCH_HEAD.size + length]
    return None if offset == wanted.offset and wanted.value in first_batch else OTHER_RECORD
