"""How does one record travel to one partition, as cheaply as can be?

The rule: a raw probe is one ProduceRequest with one record, by Kafka's own message definitions
(common/message/ProduceRequest.json and ProduceResponse.json) in version 5 to 7, which Kafka 1.0 to 4.x speak and which have
no tagged fields; the record is in message format 2. What is the same in each request of a partition is made once
(`ProduceTemplate`); the tests hold every byte against kafka-python's own encoder and decoder.

Example: `ProduceTemplate("lastack-canary-write", 3, acks=1, timeout_ms=1000).body(b"lastack1|...", 1764000000000)`.
"""

import struct
from typing import NamedTuple

from crc32c import crc32c
from kafka.protocol.producer import ProduceRequest

API_KEY = ProduceRequest.API_KEY
VERSION = 7
ACKS_LEADER, ACKS_ALL = 1, -1

_BATCH_HEAD = struct.Struct(">qiibI")  # base offset, length, partition leader epoch, magic, crc
_BATCH_BODY = struct.Struct(">hiqqqhii")  # attributes, last offset delta, two stamps, producer id, epoch, sequence, count
_RECORD_HEAD = b"\0\0\0\x01"  # attributes, timestamp delta 0, offset delta 0, key length -1
_ANSWER = struct.Struct(">ihqqqi")  # index, error, base offset, append time, log start, throttle time


class Stored(NamedTuple):
    """The answer about one record. `appended_ms` is the leader's clock on a topic with LogAppendTime, else -1."""

    error: int
    offset: int
    appended_ms: int
    throttle_ms: int


class ProduceTemplate:
    """Requests that store one record in one partition."""

    def __init__(self, topic: str, partition: int, acks: int, timeout_ms: int) -> None:
        name = topic.encode()
        # transactional_id: null; then acks, timeout, one topic, its name, one partition, its index; the records follow
        self._head = struct.pack(f">hhiih{len(name)}sii", -1, acks, timeout_ms, 1, len(name), name, 1, partition)
        self._answer_at = 4 + 2 + len(name) + 4  # one topic, its name, one partition

    def body(self, value: bytes, timestamp_ms: int) -> bytes:
        """The request's body: one record without key and headers."""
        batch = one_record(value, timestamp_ms)
        return self._head + len(batch).to_bytes(4, "big") + batch

    def read(self, frame: memoryview) -> Stored:
        """The answer's body. Raises struct.error when it is not one."""
        _, error, offset, appended_ms, _, throttle_ms = _ANSWER.unpack_from(frame, self._answer_at)
        return Stored(error, offset, appended_ms, throttle_ms)


def one_record(value: bytes, timestamp_ms: int) -> bytes:
    """A batch of message format 2 with one record."""
    content = b"".join((_RECORD_HEAD, _varint(len(value)), value, b"\0"))
    record = _varint(len(content)) + content
    checked = _BATCH_BODY.pack(0, 0, timestamp_ms, timestamp_ms, -1, -1, -1, 1) + record
    return _BATCH_HEAD.pack(0, 9 + len(checked), -1, 2, crc32c(checked)) + checked


def _varint(number: int) -> bytes:
    """Zigzag, seven bits a byte; the numbers here are lengths, so never negative."""
    number <<= 1
    if number < 0x80:
        return bytes((number,))
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
