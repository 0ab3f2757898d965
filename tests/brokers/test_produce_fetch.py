"""The requests of the probes are, byte for byte, what Kafka's own definitions ask for."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.producer import ProduceRequest, ProduceResponse
from kafka.record import MemoryRecords

from pipelines.brokers.kafka import fetch
from pipelines.brokers.kafka.produce import VERSION, ProduceTemplate, Stored, one_record
from tests.brokers.fake_kafka import batch_at


@given(st.binary(min_size=1, max_size=70_000), st.integers(0, 1 << 45))
def test_one_record_is_a_batch_that_kafka_reads(value: bytes, timestamp: int) -> None:
    (batch,) = MemoryRecords(one_record(value, timestamp))
    assert batch.validate_crc()
    (record,) = batch

    assert (record.value, record.key, record.timestamp, record.headers) == (value, None, timestamp, [])


@pytest.mark.parametrize("acks", [1, -1])
def test_a_produce_request_is_encoded_as_kafkas_definition_says(acks: int) -> None:
    kind = ProduceRequest.TopicProduceData
    expected = ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout_ms=1000,
        topic_data=[kind(name="täst", partition_data=[kind.PartitionProduceData(index=7, records=one_record(b"x", 5))])],
    )

    assert ProduceTemplate("täst", 7, acks, 1000).body(b"x", 5) == bytes(expected.encode(version=VERSION))


def test_a_produce_answer_is_read_as_kafkas_definition_says() -> None:
    kind = ProduceResponse.TopicProduceResponse
    one = kind.PartitionProduceResponse(index=7, error_code=19, base_offset=41, log_append_time_ms=99, log_start_offset=3)
    answer = ProduceResponse(responses=[kind(name="täst", partition_responses=[one])], throttle_time_ms=12)
    frame = memoryview(bytes(answer.encode(version=VERSION)))

    assert ProduceTemplate("täst", 7, 1, 1000).read(frame) == Stored(19, 41, 99, 12)


def test_an_answer_that_is_cut_short_is_an_error() -> None:
    with pytest.raises(struct.error):
        ProduceTemplate("t", 0, 1, 1000).read(memoryview(bytes(20)))
    with pytest.raises(struct.error):
        fetch.read(memoryview(bytes(5)))


def test_a_fetch_request_is_encoded_as_kafkas_definition_says() -> None:
    kind = FetchRequest.FetchTopic
    partitions = [
        kind.FetchPartition(
            partition=number,
            current_leader_epoch=4,
            fetch_offset=offset,
            log_start_offset=-1,
            partition_max_bytes=fetch.PARTITION_BYTES,
        )
        for number, offset in ((0, 10), (3, 20))
    ]
    expected = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=2 * fetch.PARTITION_BYTES,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[kind(topic="täst", partitions=partitions)],
        forgotten_topics_data=[],
        rack_id="",
    )

    body = fetch.body("täst", [fetch.Wanted(0, 10, 4, b"a"), fetch.Wanted(3, 20, 4, b"b")])

    assert body == bytes(expected.encode(version=fetch.VERSION))


def test_a_fetch_answer_is_read_as_kafkas_definition_says() -> None:
    kind = FetchResponse.FetchableTopicResponse
    aborted = [kind.PartitionData.AbortedTransaction(producer_id=1, first_offset=2)]
    partitions = [
        kind.PartitionData(
            partition_index=number,
            error_code=error,
            high_watermark=30,
            last_stable_offset=30,
            log_start_offset=0,
            aborted_transactions=transactions,
            preferred_read_replica=-1,
            records=records,
        )
        for number, error, transactions, records in ((0, 0, aborted, b"abc"), (3, 6, None, None))
    ]
    answer = FetchResponse(throttle_time_ms=5, error_code=0, session_id=0, responses=[kind(topic="täst", partitions=partitions)])
    frame = memoryview(bytes(answer.encode(version=fetch.VERSION)))

    assert fetch.read(frame) == fetch.FetchAnswer(0, 5, {0: (0, 30, b"abc"), 3: (6, 30, b"")})


@pytest.mark.parametrize(
    ("records", "high_watermark", "why"),
    [
        (batch_at(10, b"mine") + batch_at(11, b"next"), 12, None),
        (b"", 10, fetch.NOT_READABLE_YET),
        (b"", 12, fetch.OTHER_RECORD),
        (batch_at(10, b"theirs"), 12, fetch.OTHER_RECORD),
        (batch_at(11, b"mine"), 12, fetch.OTHER_RECORD),
        (batch_at(10, b"theirs") + batch_at(11, b"mine"), 12, fetch.OTHER_RECORD),
    ],
)
def test_a_read_is_served_when_the_very_bytes_come_from_the_very_offset(records: bytes, high_watermark: int, why: str | None) -> None:
    assert fetch.judge(fetch.Wanted(0, 10, 4, b"mine"), high_watermark, records) == why
