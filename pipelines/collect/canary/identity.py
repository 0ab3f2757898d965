"""What does a canary record say, so that anybody who finds it knows whose it is, and whether it is intact?

The rule: a record's value is one line of ASCII text, `lastack1|BOOT|KIND|LANE|PARTITION|SEQUENCE|CRC`. (BOOT, KIND, LANE, PARTITION,
SEQUENCE) names a probe for good: BOOT is new for each run of the canary. CRC is the CRC-32 (zlib's) of the text before its `|`, in
lower-case hexadecimal without leading zeros; Spark SQL says the same with `lower(hex(crc32(substring_index(value, '|', 6))))`.

Example: `lastack1|6f0c41|durable_write|raw|3|17|4b2006b4`.
"""

import zlib
from typing import NamedTuple

MAGIC = "lastack1"
PARTS = 7


class Identity(NamedTuple):
    """Which probe wrote a record."""

    boot_id: str
    kind: str
    lane: str
    partition: str
    sequence: int


class Stamp:
    """Makes the values of one partition's records; what they share is made once."""

    def __init__(self, boot_id: str, kind: str, lane: str, partition: str) -> None:
        self._prefix = f"{MAGIC}|{boot_id}|{kind}|{lane}|{partition}|".encode()
        self._crc = zlib.crc32(self._prefix)

    def value(self, sequence: int) -> bytes:
        """The value of the record with this sequence."""
        number = b"%d" % sequence
        return b"%b%b|%x" % (self._prefix, number, zlib.crc32(number, self._crc))


def identity(value: bytes) -> Identity | None:
    """Whose record it is; None when it is not a canary record, or not intact."""
    head, _, crc = value.rpartition(b"|")
    if crc != b"%x" % zlib.crc32(head):
        return None
    parts = head.decode("ascii", "replace").split("|")
    if len(parts) != PARTS - 1 or parts[0] != MAGIC or not parts[5].isdigit():
        return None
    return Identity(parts[1], parts[2], parts[3], parts[4], int(parts[5]))
