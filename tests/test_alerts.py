"""What is put into the outbox reaches a real receiver at least once, whatever becomes of the receiver or of us."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import structlog

from pipelines.alerts import NEVER, Outbox, message
from pipelines.errors import UsageError
from pipelines.processes import wait_until

START = 1_790_000_000_123_000
LABELS = {"alertname": "PartitionNotServed", "alert_id": "a1", "cluster_id": "c", "prober_id": "p", "resource": "t", "shard": "0"}


class Receiver:
    """A webhook receiver on loopback: answers with what `statuses` says, then 200, and remembers every body that came."""

    def __init__(self, port: int = 0) -> None:
        self.statuses: list[int] = []
        self.bodies: list[dict[str, Any]] = []
        self.taken: list[dict[str, Any]] = []
        self.types: set[str] = set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                receiver.types.add(self.headers["Content-Type"])
                receiver.bodies.append(body)
                status = receiver.statuses.pop(0) if receiver.statuses else 200
                self.send_response(status)
                self.end_headers()
                if status == 200:
                    receiver.taken.append(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    one = Receiver()
    yield one
    one.close()


def body(number: int) -> dict[str, Any]:
    labels = [LABELS | {"alert_id": f"a{number}"}]
    return message(labels=labels, annotations=[{"summary": "s"}], states=["firing"], spans=[(START, None)], receiver="lastack")


def numbers(bodies: list[dict[str, Any]]) -> list[str]:
    return [one["alerts"][0]["fingerprint"] for one in bodies]


def waits(condition: Callable[[], bool], what: str) -> None:
    wait_until(condition, 30, what)


def on_disk(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_a_message_is_delivered_in_order_and_then_deleted(tmp_path: Path, receiver: Receiver) -> None:
    with Outbox(tmp_path / "outbox", receiver.url) as outbox:
        for number in range(5):
            outbox.put(body(number))
        waits(lambda: len(receiver.taken) == 5 and on_disk(tmp_path) == [], "five messages")
    assert numbers(receiver.taken) == ["a0", "a1", "a2", "a3", "a4"]
    assert receiver.types == {"application/json"}


def test_a_receiver_that_answers_500_gets_it_again_and_later_ones_after_it(tmp_path: Path, receiver: Receiver) -> None:
    receiver.statuses = [500, 503, 429, 404]
    with Outbox(tmp_path, receiver.url, pause_seconds=0.01) as outbox:
        outbox.put(body(1))
        outbox.put(body(2))
        waits(lambda: len(receiver.taken) == 2, "two messages")
    assert numbers(receiver.taken) == ["a1", "a2"]
    assert numbers(receiver.bodies) == ["a1"] * 5 + ["a2"]
    assert on_disk(tmp_path) == []


def test_a_receiver_that_is_down_gets_it_when_it_is_up(tmp_path: Path) -> None:
    first = Receiver()
    first.close()
    with Outbox(tmp_path, first.url, pause_seconds=0.01) as outbox:
        outbox.put(body(1))
        waits(lambda: len(on_disk(tmp_path)) == 1, "the message on disk")
        second = Receiver(first.port)
        try:
            waits(lambda: len(second.taken) == 1, "the message")
        finally:
            second.close()
    assert on_disk(tmp_path) == []


def test_a_restart_keeps_the_outbox(tmp_path: Path) -> None:
    gone = Receiver()
    gone.close()
    with Outbox(tmp_path, gone.url, pause_seconds=60) as outbox:
        outbox.put(body(1))
        outbox.put(body(2))
    assert len(on_disk(tmp_path)) == 2
    receiver = Receiver()
    try:
        with Outbox(tmp_path, receiver.url):
            waits(lambda: on_disk(tmp_path) == [], "an empty outbox")
    finally:
        receiver.close()
    assert numbers(receiver.taken) == ["a1", "a2"]


def test_what_was_put_last_is_still_sent_while_it_stops(tmp_path: Path, receiver: Receiver) -> None:
    with Outbox(tmp_path, receiver.url) as outbox:
        outbox.put(body(1))
    assert numbers(receiver.taken) == ["a1"]


def test_a_body_that_is_never_taken_is_put_aside_and_holds_back_no_other(tmp_path: Path, receiver: Receiver) -> None:
    receiver.statuses = [413]
    with Outbox(tmp_path, receiver.url, pause_seconds=0.01) as outbox:
        outbox.put(body(1))
        outbox.put(body(2))
        waits(lambda: len(receiver.taken) == 1, "the second message")
    assert numbers(receiver.taken) == ["a2"]
    assert [json.loads(path.read_text())["alerts"][0]["fingerprint"] for path in on_disk(tmp_path / "refused")] == ["a1"]
    assert on_disk(tmp_path) == on_disk(tmp_path / "refused")


def test_two_probers_that_share_an_outbox_lose_nothing(tmp_path: Path, receiver: Receiver) -> None:
    with Outbox(tmp_path, receiver.url) as one, Outbox(tmp_path, receiver.url) as other:
        for number in range(40):
            (one, other)[number % 2].put(body(number))
        waits(lambda: on_disk(tmp_path) == [], "an empty outbox")
    assert set(numbers(receiver.taken)) == {f"a{number}" for number in range(40)}


def test_while_the_disk_takes_nothing_messages_are_sent_from_memory(tmp_path: Path, receiver: Receiver) -> None:
    with Outbox(tmp_path / "outbox", receiver.url) as outbox:
        (tmp_path / "outbox").rename(tmp_path / "elsewhere")
        outbox.put(body(1))
        waits(lambda: len(receiver.taken) == 1, "the message")


def test_without_a_receiver_nothing_is_written(tmp_path: Path) -> None:
    with Outbox(tmp_path / "outbox", None) as outbox:
        outbox.put(body(1))
    assert on_disk(tmp_path) == []


def test_an_address_that_no_webhook_can_have_is_said_at_once(tmp_path: Path) -> None:
    for url in ("s3cret@example.org", "ftp://example.org/s3cret", "http:///s3cret", "http://h:99999/s3cret"):
        with pytest.raises(UsageError, match="the webhook is not an address") as error:
            Outbox(tmp_path, url)
        assert "s3cret" not in str(error.value)


def test_what_is_logged_of_a_receiver_that_is_down_names_its_host_and_not_the_path_that_is_its_secret(tmp_path: Path) -> None:
    receiver = Receiver()
    receiver.close()
    with structlog.testing.capture_logs() as logs, Outbox(tmp_path, f"http://u:s3cret@127.0.0.1:{receiver.port}/s3cret") as outbox:
        outbox.put(body(1))
        waits(lambda: bool(logs), "a line in the log")
    assert logs[0]["receiver"] == f"127.0.0.1:{receiver.port}"
    assert "s3cret" not in str(logs)


def test_a_half_written_message_is_never_sent(tmp_path: Path, receiver: Receiver) -> None:
    (tmp_path / f".20260101T000000000000-{os.getpid()}.json.part").write_text('{"half":')
    with Outbox(tmp_path, receiver.url) as outbox:
        outbox.put(body(1))
        waits(lambda: len(receiver.taken) == 1, "the whole message")
    assert numbers(receiver.bodies) == ["a1"]


def test_the_body_is_alertmanagers_webhook_version_4() -> None:
    second = LABELS | {"alert_id": "a2", "shard": "1"}
    sent = message(
        labels=[LABELS, second],
        annotations=[{"summary": "first"}, {"summary": "second"}],
        states=["unmeasured", "resolved"],
        spans=[(START, None), (START, START + 1_999)],
        receiver="lastack",
    )
    assert sent == {
        "version": "4",
        "groupKey": '{}:{cluster_id="c", prober_id="p"}',
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": "lastack",
        "groupLabels": {"cluster_id": "c", "prober_id": "p"},
        "commonLabels": {"alertname": "PartitionNotServed", "cluster_id": "c", "prober_id": "p", "resource": "t"},
        "commonAnnotations": {},
        "externalURL": "",
        "alerts": [
            {
                "status": "firing",
                "labels": LABELS,
                "annotations": {"summary": "first", "state": "unmeasured"},
                "startsAt": "2026-09-21T14:13:20.123Z",
                "endsAt": NEVER,
                "generatorURL": "",
                "fingerprint": "a1",
            },
            {
                "status": "resolved",
                "labels": second,
                "annotations": {"summary": "second", "state": "resolved"},
                "startsAt": "2026-09-21T14:13:20.123Z",
                "endsAt": "2026-09-21T14:13:20.124Z",
                "generatorURL": "",
                "fingerprint": "a2",
            },
        ],
    }


def test_a_message_is_resolved_only_when_all_its_alerts_are() -> None:
    def status(*states: str) -> str:
        labels = [LABELS | {"alert_id": str(number)} for number in range(len(states))]
        spans: list[tuple[int, int | None]] = [(START, None)] * len(states)
        sent = message(labels=labels, annotations=[{}] * len(states), states=list(states), spans=spans, receiver="r")
        return str(sent["status"])

    assert status("resolved", "resolved") == "resolved"
    assert status("resolved", "firing") == "firing"
    assert status("unmeasured") == "firing"
