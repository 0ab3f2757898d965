"""How does an alert reach somebody, at least once? An outbox on disk, and a thread that empties it.

The rule: what the fast lane reports is written to HOME/outbox first, then sent as a webhook in the body that Alertmanager sends
(version 4), so that receivers parse it already. A message is deleted when the receiver answered 2xx; a receiver that is down, or
that refuses, gets it again with growing pauses, also after a restart. Delivered twice is possible, lost is not.

This module delivers only; it computes nothing.
"""

import contextlib
import json
import threading
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog
import urllib3

log = structlog.get_logger("alerts")

PAUSE_SECONDS_MAX = 30.0
TIMEOUT_SECONDS = 3.0
NEVER = "0001-01-01T00:00:00Z"


def message(
    *,
    labels: list[dict[str, str]],
    annotations: list[dict[str, str]],
    states: list[str],
    spans: list[tuple[int, int | None]],
    receiver: str,
) -> dict[str, Any]:
    """The body of a webhook for some alerts that changed together. Instants in microseconds since the epoch."""
    alerts = [
        {
            "status": "resolved" if state == "resolved" else "firing",
            "labels": label | {"state": state},
            "annotations": note,
            "startsAt": _instant(span[0]),
            "endsAt": NEVER if span[1] is None else _instant(span[1]),
            "generatorURL": "",
            "fingerprint": label["alert_id"],
        }
        for label, note, state, span in zip(labels, annotations, states, spans, strict=True)
    ]
    common = {name: value for name, value in labels[0].items() if all(label.get(name) == value for label in labels)}
    return {
        "version": "4",
        "groupKey": f'{{}}:{{cluster_id="{common.get("cluster_id", "")}"}}',
        "truncatedAlerts": 0,
        "status": "resolved" if all(state == "resolved" for state in states) else "firing",
        "receiver": receiver,
        "groupLabels": {"cluster_id": common.get("cluster_id", "")},
        "commonLabels": common,
        "commonAnnotations": {},
        "externalURL": "",
        "alerts": alerts,
    }


class Outbox:
    """Messages that wait on disk for one receiver. Without a receiver they are only logged by whoever reports them."""

    def __init__(self, folder: Path, url: str | None) -> None:
        self.folder = folder
        self.url = url
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._http = urllib3.PoolManager(retries=False, timeout=TIMEOUT_SECONDS)
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)

    def __enter__(self) -> "Outbox":
        if self.url is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._wake.set()
        if self.url is not None:
            self._thread.join(timeout=2 * TIMEOUT_SECONDS)

    def put(self, body: dict[str, Any]) -> None:
        """Writes a message to disk and wakes the sender."""
        if self.url is None:
            return
        name = f"{datetime.now(tz=UTC):%Y%m%dT%H%M%S%f}-{uuid.uuid4().hex[:8]}.json"
        part = self.folder / f".{name}.part"
        part.write_text(json.dumps(body))
        part.rename(self.folder / name)
        self._wake.set()

    def _run(self) -> None:
        pause = 1.0
        while True:
            is_done = self._send_all()
            if self._stopping.is_set():
                return
            pause = 1.0 if is_done else min(2 * pause, PAUSE_SECONDS_MAX)
            self._wake.wait(None if is_done else pause)
            self._wake.clear()

    def _send_all(self) -> bool:
        """Sends the waiting messages in order; False when one of them could not be delivered."""
        return all(self._send(path) for path in sorted(self.folder.glob("*.json")))

    def _send(self, path: Path) -> bool:
        try:
            answer = self._http.request("POST", str(self.url), body=path.read_bytes(), headers={"Content-Type": "application/json"})
        except urllib3.exceptions.HTTPError as error:
            log.warning("alert_not_delivered", url=self.url, error=str(error), waiting=path.name)
            return False
        if not 200 <= answer.status < 300:
            log.warning("alert_not_delivered", url=self.url, status=answer.status, waiting=path.name)
            return False
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        return True


def _instant(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1e6, tz=UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
