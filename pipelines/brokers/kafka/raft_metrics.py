"""How far is a node's metadata log committed, by its own word?

The rule: raft-metrics' high-watermark, read from the node's Jolokia agent by a thread of its own, so that an agent that hangs
holds up nobody. A high watermark never falls, so an old one still holds; but where none was heard for FRESH_SECONDS nothing
more is expected, and None is said.

Example: `RaftHighWatermark("http://127.0.0.1:7777/jolokia").known()` is None at first, and 1042 half a second later.
"""

import json
import threading
import time
import urllib.request
from typing import Any

MBEAN = "kafka.server:type=raft-metrics"
ATTRIBUTE = "high-watermark"
POLL_SECONDS = 0.5
ANSWER_SECONDS = 2.0
FRESH_SECONDS = 3.0


class RaftHighWatermark:
    """How far the metadata log of the node at a Jolokia URL is committed. Polls from its making until `stop`."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        # A node's own agent is asked directly, whatever proxy the environment names for the world outside.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._known: tuple[int, float] | None = None
        self._is_stopping = threading.Event()
        threading.Thread(target=self._poll, name="raft-high-watermark", daemon=True).start()

    def known(self) -> int | None:
        """The offset below which everything is committed; None while the node does not say."""
        known = self._known
        return None if known is None or time.monotonic() - known[1] > FRESH_SECONDS else known[0]

    def stop(self) -> None:
        """Ends the polling; an answer that is on its way is not waited for."""
        self._is_stopping.set()

    def _poll(self) -> None:
        while not self._is_stopping.wait(POLL_SECONDS):
            value = self._ask()
            if value is not None:
                self._known = (value, time.monotonic())

    def _ask(self) -> int | None:
        body = json.dumps({"type": "read", "mbean": MBEAN, "attribute": ATTRIBUTE}).encode()
        try:
            with self._opener.open(self._url, body, timeout=ANSWER_SECONDS) as response:
                answer: Any = json.load(response)
        except (OSError, ValueError):
            return None  # no news; `known` says so when it lasts
        value = answer.get("value") if isinstance(answer, dict) else None
        return int(value) if isinstance(value, int | float) and value >= 0 else None
