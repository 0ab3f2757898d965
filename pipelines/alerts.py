"""How does an alert reach somebody, at least once? An outbox on disk, and a thread that empties it.

The rule: what the fast lane reports is written to HOME/outbox first, then sent as a webhook in the body that Alertmanager sends
(version 4), so that receivers parse it already: each message holds every alert that changed and all others that are unresolved. It
is deleted when the receiver answered 2xx; a receiver that is down, or that answers otherwise, gets it again with growing pauses,
also after a restart, and in order. Delivered twice is possible, lost is not. A body that the receiver will never take (400, 413,
415, 422) is put aside in HOME/outbox/refused, so that it holds back no other. While the disk takes nothing, messages wait in memory.

This module delivers only; it computes nothing.

Example: with a receiver that answers 500 twice, a message arrives at the third attempt, 1 + 2 s after the first.
"""

import json
import threading
import uuid
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import structlog
import urllib3

from pipelines.domain.clock import instant
from pipelines.errors import UsageError

log = structlog.get_logger("alerts")

PAUSE_SECONDS = 1.0
PAUSE_SECONDS_MAX = 30.0
TIMEOUT_SECONDS = 3.0
NEVER = "0001-01-01T00:00:00Z"
NEVER_TAKEN = frozenset({400, 413, 415, 422})
"""Answers that are about the body: the same body gets the same answer. Others (a token, a path, a server) can be mended."""


def message(
    *,
    labels: list[dict[str, str]],
    annotations: list[dict[str, str]],
    states: list[str],
    spans: list[tuple[int, int | None]],
    receiver: str,
) -> dict[str, Any]:
    """The body of a webhook. Labels name an alert and stay the same while it lives; its state is an annotation.

    Instants are in microseconds since the epoch; the end of what is not over is None.
    """
    alerts = [
        {
            "status": "resolved" if state == "resolved" else "firing",
            "labels": label,
            "annotations": note | {"state": state},
            "startsAt": _instant(span[0]),
            "endsAt": NEVER if span[1] is None else _instant(span[1]),
            "generatorURL": "",
            "fingerprint": label["alert_id"],
        }
        for label, note, state, span in zip(labels, annotations, states, spans, strict=True)
    ]
    common = {name: value for name, value in labels[0].items() if all(label.get(name) == value for label in labels)}
    group = {name: labels[0][name] for name in ("cluster_id", "prober_id") if name in labels[0]}
    return {
        "version": "4",
        "groupKey": "{}:{" + ", ".join(f"{name}={json.dumps(value)}" for name, value in group.items()) + "}",
        "truncatedAlerts": 0,
        "status": "resolved" if all(state == "resolved" for state in states) else "firing",
        "receiver": receiver,
        "groupLabels": group,
        "commonLabels": common,
        "commonAnnotations": {},
        "externalURL": "",
        "alerts": alerts,
    }


class Outbox:
    """Messages that wait for one receiver. Without a receiver (`url` is None) they are only logged by whoever reports them.

    Raises UsageError for a url that no webhook can have.
    """

    def __init__(self, folder: Path, url: str | None, pause_seconds: float = PAUSE_SECONDS) -> None:
        self.folder = folder
        self.url = url
        self._receiver = "" if url is None else _receiver(url)
        self._pause = pause_seconds
        self._unwritten: deque[tuple[str, bytes]] = deque()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._http = urllib3.PoolManager(retries=False, timeout=TIMEOUT_SECONDS)
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)

    def __enter__(self) -> Self:
        if self.url is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stopping.set()
        self._wake.set()
        if self.url is not None:
            self._thread.join(timeout=2 * TIMEOUT_SECONDS)

    def put(self, body: dict[str, Any]) -> None:
        """Takes a message and wakes the sender. It survives this process once it is on disk, and waits in memory while it cannot be."""
        if self.url is None:
            return
        name = f"{datetime.now(tz=UTC):%Y%m%dT%H%M%S%f}-{uuid.uuid4().hex[:8]}.json"
        content = json.dumps(body).encode()
        part = self.folder / f".{name}.part"
        try:
            part.write_bytes(content)
            part.rename(self.folder / name)
        except OSError as error:
            log.warning("alert_not_on_disk", error=str(error), waiting=name)
            self._unwritten.append((name, content))
        self._wake.set()

    def _run(self) -> None:
        pause = self._pause
        while True:
            try:
                is_done = self._send_all()
            except OSError as error:
                log.warning("outbox_not_usable", folder=str(self.folder), error=str(error))
                is_done = False
            if self._stopping.is_set():
                return
            self._wake.wait(None if is_done else pause)
            self._wake.clear()
            pause = self._pause if is_done else min(2 * pause, PAUSE_SECONDS_MAX)

    def _send_all(self) -> bool:
        """Sends what waits, in order; False when something could not be delivered."""
        for path in sorted(self.folder.glob("*.json")):
            try:
                content = path.read_bytes()
            except FileNotFoundError:
                continue  # another prober of this home, which shares the outbox, has sent it
            if not self._send(path.name, content):
                return False
            path.unlink(missing_ok=True)
        while self._unwritten:
            if not self._send(*self._unwritten[0]):
                return False
            self._unwritten.popleft()
        return True

    def _send(self, name: str, content: bytes) -> bool:
        """Whether the message need not be sent again."""
        try:
            answer = self._http.request("POST", str(self.url), body=content, headers={"Content-Type": "application/json"})
        except urllib3.exceptions.HTTPError as error:
            log.warning("alert_not_delivered", receiver=self._receiver, error=str(error), waiting=name)
            return False
        if 200 <= answer.status < 300:
            return True
        if answer.status in NEVER_TAKEN:
            self._put_aside(name, content, answer.status)
            return True
        log.warning("alert_not_delivered", receiver=self._receiver, status=answer.status, waiting=name)
        return False

    def _put_aside(self, name: str, content: bytes, status: int) -> None:
        place = self.folder / "refused"
        place.mkdir(exist_ok=True)
        (place / name).write_bytes(content)
        log.error("alert_refused", receiver=self._receiver, status=status, kept_in=str(place / name))


def _receiver(url: str) -> str:
    """The host of a webhook, for people: who knows the path of one may often write to it, so logs and messages do not repeat it."""
    try:
        parts = urllib3.util.parse_url(url)
    except urllib3.exceptions.LocationParseError:
        parts = urllib3.util.Url()
    if parts.scheme not in ("http", "https") or not parts.host:
        raise UsageError("the webhook is not an address (not repeated here: it may be a secret); expected http://HOST[:PORT]/PATH")
    return parts.host if parts.port is None else f"{parts.host}:{parts.port}"


def _instant(at_us: int) -> str:
    return instant(at_us).isoformat(timespec="milliseconds").replace("+00:00", "Z")
