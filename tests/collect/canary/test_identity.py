"""A canary record says whose it is, and damage shows."""

import binascii

from hypothesis import given
from hypothesis import strategies as st

from pipelines.collect.canary.identity import Identity, Stamp, identity

WORDS = st.from_regex(r"[a-z0-9_]{1,12}", fullmatch=True)


def test_the_value_is_what_the_contract_says() -> None:
    assert Stamp("6f0c41", "durable_write", "raw", "3").value(17) == b"lastack1|6f0c41|durable_write|raw|3|17|4b2006b4"


@given(WORDS, WORDS, WORDS, WORDS, st.integers(0, 1 << 62))
def test_whose_it_is_can_be_read_again(boot: str, kind: str, lane: str, partition: str, sequence: int) -> None:
    value = Stamp(boot, kind, lane, partition).value(sequence)

    assert identity(value) == Identity(boot, kind, lane, partition, sequence)


@given(WORDS, st.integers(0, 1 << 62))
def test_spark_sql_computes_the_same_check(boot: str, sequence: int) -> None:
    """`lower(hex(crc32(substring_index(value, '|', 6))))`: a CRC-32 as an unsigned number, in hexadecimal without leading zeros."""
    head, _, crc = Stamp(boot, "write", "raw", "0").value(sequence).decode().rpartition("|")

    assert head.count("|") == 5
    assert crc == hex(binascii.crc32(head.encode())).removeprefix("0x").lower()


@given(st.integers(0, 200), st.integers(1, 255))
def test_a_flipped_byte_is_noticed(at: int, flip: int) -> None:
    value = bytearray(Stamp("6f0c41", "write", "raw", "3").value(17))
    value[at % len(value)] ^= flip

    assert identity(bytes(value)) is None


def test_what_is_no_canary_record_has_no_identity() -> None:
    for value in (b"", b"|", b"hello", b"lastack1|a|b|c|d|1", b"lastack2|a|b|c|d|1|" + b"%x" % binascii.crc32(b"lastack2|a|b|c|d|1")):
        assert identity(value) is None
