"""What Kafka's own tools print is read as they print it (recorded from 4.3.1)."""

from pipelines.drills.records import Ack
from pipelines.drills.witness import Witness, parse_dump

DUMP = """\
Dumping /data/witness-all-0/00000000000000000000.log
Log starting offset: 0
baseOffset: 0 lastOffset: 1 count: 2 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 partitionLeaderEpoch: 0 \
isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty position: 0 LogAppendTime: 1795257015352 size: 451 \
magic: 2 compresscodec: none crc: 891182933 isvalid: true
| offset: 0 LogAppendTime: 1795257015352 keySize: 1 valueSize: 1 sequence: -1 headerKeys: [] key: 5 payload: 5
| offset: 1 LogAppendTime: 1795257015352 keySize: 2 valueSize: 9 sequence: -1 headerKeys: [] key: 11 payload: a | b: c
Dumping /data/ledger-1/00000000000000000007.log
Log starting offset: 7
baseOffset: 7 lastOffset: 7 count: 1 baseSequence: -1 lastSequence: -1 producerId: 9 producerEpoch: 0 partitionLeaderEpoch: 2 \
isTransactional: true isControl: true deleteHorizonMs: OptionalLong.empty position: 0 LogAppendTime: 1795257015400 size: 78 \
magic: 2 compresscodec: none crc: 1 isvalid: true
| offset: 7 LogAppendTime: 1795257015400 keySize: 4 valueSize: 6 sequence: -1 headerKeys: [] payload: marker
baseOffset: 8 lastOffset: 8 count: 1 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 partitionLeaderEpoch: 2 \
isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty position: 78 LogAppendTime: 1795257015500 size: 78 \
magic: 2 compresscodec: none crc: 1 isvalid: true
| offset: 8 LogAppendTime: 1795257015500 keySize: -1 valueSize: 2 sequence: -1 headerKeys: [] payload: 12
""".splitlines()

PRODUCED = """\
{"timestamp":1795257014000,"name":"startup_complete"}
{"timestamp":1795257015360,"name":"producer_send_success","topic":"ledger","partition":0,"offset":0,"key":"5","value":"5"}
[2026-11-21 10:30:15,400] WARN a line of a logger
{"timestamp":1795257016000,"name":"producer_send_error","topic":"ledger","key":"6","value":"6","exception":"x","message":"y"}
"""


def test_a_dump_gives_the_records_of_each_file_and_no_control_records():
    assert list(parse_dump(DUMP)) == [
        ("/data/witness-all-0/00000000000000000000.log", (0, "5", 1795257015352)),
        ("/data/witness-all-0/00000000000000000000.log", (1, "a | b: c", 1795257015352)),
        ("/data/ledger-1/00000000000000000007.log", (8, "12", 1795257015500)),
    ]


def test_a_producer_s_log_is_read_line_by_line_and_a_line_that_is_half_written_waits(tmp_path):
    witness = Witness("ledger", -1, 100, tmp_path)
    assert witness.acknowledged() == []
    head, tail = PRODUCED[:150], PRODUCED[150:]
    witness.log_path.write_text(head)
    assert witness.acknowledged() == []
    with witness.log_path.open("a") as file:
        file.write(tail)
    assert witness.acknowledged() == [Ack(0, 0, "5", 1795257015360)]
    assert witness.failed == 1
