"""What did somebody who knows nothing of us live through? Kafka's own VerifiableProducer, and what is on the brokers' disks.

A witness writes to a topic of its own, each record tried once (no retries, no idempotence: a record is stored once or not at all),
and its log says of each record that was acknowledged: partition, offset, value, and when the *callback* ran, in whole milliseconds of
the host's wall clock. The topic has `message.timestamp.type=LogAppendTime`, so the brokers' files say when the leader *appended* it.

What these instants prove of an acknowledged record, a its append and c its callback, both cut to whole milliseconds:

- the leader took a write at an instant in [a, a + 1 ms); so it was serving then, for acks=1;
- with acks=all the last replica had it at an instant in [a, c + 1 ms), not before a;
- c alone proves nothing of its own millisecond: an answer that left the leader just before it died is still delivered.

A record that is gone has no append time; its acknowledgement is still one. What is on the disks is read by Kafka's DumpLogSegments from
the leader's own segments after everything is in sync: no consumer, group or fetch is involved.

Example: {"name": "producer_send_success", "timestamp": 1790, "value": "17", "partition": 3, "offset": 5} and in the dump of partition 3
`| offset: 5 LogAppendTime: 1788 ... payload: 17`: the leader served at 1788 ms, the last replica had it by 1791 ms.
"""

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from signal import Signals

from pipelines.drills.records import BACKOFF_MS, KEYS, REQUEST_MS, Ack, Consumed, Stored
from pipelines.drills.tools import Child, run_tool, start_tool
from pipelines.errors import LabError, TimedOut
from pipelines.lab import Lab, Node

PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
DUMP = "org.apache.kafka.tools.DumpLogSegments"
SETTINGS = {"message.timestamp.type": "LogAppendTime"}
"""What the topic of a witness must be set to."""

STOP_SECONDS = 20.0
DUMP_SECONDS = 120.0
DUMP_ATTEMPTS = 3

_RECORD = re.compile(r"\| offset: (\d+) .*?\bLogAppendTime: (-?\d+)\b.*?\bpayload: (.*)$")
_HEAD = re.compile(r"^Dumping (.*)$")
_BATCH = re.compile(r"isControl: true")


class Witness:
    """A producer that is running, and its log."""

    def __init__(self, topic: str, acks: int, rate: int, folder: Path) -> None:
        self.topic = topic
        self.acks = acks
        self.log_path = folder / f"{topic}.producer.log"
        self.consumer_log_path = folder / f"{topic}.consumer.log"
        self._rate = rate
        self._folder = folder
        self._children: list[Child] = []
        self._acks: list[Ack] = []
        self._failed = 0
        self._read_to = 0

    def start(self, bootstrap: str, prefix: Sequence[str] = (), *, reads: bool = False) -> None:
        """Starts the producer, and a consumer that says what can be read, where one is wanted. `prefix`: see `start_tool`."""
        config = self._folder / f"{self.topic}.properties"
        common = (
            f"reconnect.backoff.ms=50\nreconnect.backoff.max.ms={BACKOFF_MS}\nretry.backoff.ms=50\nretry.backoff.max.ms={BACKOFF_MS}\n"
            f"request.timeout.ms={REQUEST_MS}\nmetadata.max.age.ms=1000\n"
            f"socket.connection.setup.timeout.ms={REQUEST_MS}\nsocket.connection.setup.timeout.max.ms={REQUEST_MS}\n"
        )
        config.write_text(
            f"{common}enable.idempotence=false\nretries=0\nlinger.ms=0\ndelivery.timeout.ms={REQUEST_MS}\nmax.block.ms={REQUEST_MS}\n"
        )
        arguments = ["--bootstrap-server", bootstrap, "--topic", self.topic, "--throughput", str(self._rate)]
        arguments += ["--acks", str(self.acks), "--repeating-keys", str(KEYS), "--command-config", str(config)]
        self._children.append(start_tool(PRODUCER, arguments, self.log_path, prefix))
        if reads:
            config = self._folder / f"{self.topic}.consumer.properties"
            config.write_text(common)
            arguments = ["--bootstrap-server", bootstrap, "--topic", self.topic, "--group-id", f"drill-{self.topic}", "--verbose"]
            arguments += ["--reset-policy", "earliest", "--command-config", str(config)]
            # Without it each batch is committed before the next one is read: where the coordinator is gone, it would end.
            arguments += ["--enable-autocommit"]
            self._children.append(start_tool(CONSUMER, arguments, self.consumer_log_path, prefix))

    def check(self) -> None:
        """Raises LabError where a witness has ended by itself: without one there is no truth."""
        for child in self._children:
            if not child.is_alive():
                raise LabError(f"{child.name} of {self.topic} ended with code {child.exit_code}: {child.log_tail(2)}")

    def stop(self) -> None:
        """Ends it in order, so that what was acknowledged is written down."""
        for child in self._children:
            child.send(Signals.SIGTERM)
        for child in self._children:
            try:
                child.wait(STOP_SECONDS)
            except TimedOut:
                child.stop(grace_seconds=0.0)
        self.acknowledged()

    def close(self) -> None:
        """Ends it, whatever it is doing."""
        for child in self._children:
            child.stop(grace_seconds=0.0)

    @property
    def failed(self) -> int:
        """How many records it was told had failed."""
        self.acknowledged()
        return self._failed

    def acknowledged(self) -> list[Ack]:
        """Every record that was acknowledged so far."""
        if self.log_path.is_file():
            with self.log_path.open("rb") as file:
                file.seek(self._read_to)
                read = file.read()
            whole = read[: read.rfind(b"\n") + 1]
            self._read_to += len(whole)
            for line in whole.decode(errors="replace").splitlines():
                self._take(line)
        return self._acks

    def _take(self, line: str) -> None:
        if '"producer_send_success"' in line:
            said = json.loads(line)
            self._acks.append(Ack(said["partition"], said["offset"], said["value"], said["timestamp"]))
        elif '"producer_send_error"' in line:
            self._failed += 1


def stored(lab: Lab, topics: Iterable[str], folder: Path) -> dict[str, list[Stored]]:
    """What the leaders have on their disks, by topic. Every partition must have a leader and be in sync."""
    wanted = list(topics)
    for _ in range(DUMP_ATTEMPTS - 1):
        # A log that is being compacted swaps its segments, and may do so under the tool's hands.
        with contextlib.suppress(LabError):
            return _stored(lab, wanted, folder)
    return _stored(lab, wanted, folder)


def _stored(lab: Lab, topics: list[str], folder: Path) -> dict[str, list[Stored]]:
    files: dict[str, tuple[str, int]] = {}
    for topic in topics:
        for state in lab.admin.partitions(topic):
            if state.leader is None:
                raise LabError(f"{topic}/{state.partition} has no leader: what is on its disk is not the last word")
            for path in _segments(lab.node(state.leader), topic, state.partition):
                files[str(path)] = (topic, state.partition)
    found: dict[str, list[Stored]] = {topic: [] for topic in topics}
    if files:
        log = folder / "dump.log"
        log.unlink(missing_ok=True)
        printed = run_tool(DUMP, ["--print-data-log", "--files", ",".join(files)], log, DUMP_SECONDS)
        for name, record in parse_dump(printed.splitlines()):
            topic, partition = files[name]
            found[topic].append(Stored(partition, *record))
    return found


def parse_dump(lines: Iterable[str]) -> Iterator[tuple[str, tuple[int, str, int]]]:
    """The data records that DumpLogSegments printed: the file, and (offset, value, append time in ms)."""
    name = ""
    is_control = False
    for line in lines:
        head = _HEAD.match(line)
        record = _RECORD.search(line)
        if head:
            name = head[1]
        elif line.startswith("baseOffset:"):
            is_control = _BATCH.search(line) is not None
        elif record and not is_control:
            yield name, (int(record[1]), record[3], int(record[2]))


def consumed(log_path: Path) -> Iterator[Consumed]:
    """What a VerifiableConsumer says that it read; nothing where there is none."""
    if not log_path.is_file():
        return
    for line in log_path.read_text(errors="replace").splitlines():
        if '"record_data"' in line and line.endswith("}"):
            said = json.loads(line)
            yield Consumed(said["partition"], said["offset"], said["value"], said["timestamp"])


def _segments(node: Node, topic: str, partition: int) -> list[Path]:
    return sorted(node.data_dir.glob(f"{topic}-{partition}/*.log"))
