"""How far is a node's metadata log committed, by its own word?

The rule: raft-metrics' high-watermark, read from the node's own Jolokia agent by a thread of its own, so that an agent that hangs holds
up nobody. What another node has committed says nothing of this node's log, whose end may be replaced yet: of several agents, only
the one that names itself as the node is believed. A high watermark never falls, so an old one still holds; but where none was heard
for FRESH_SECONDS nothing more is expected, and None is said.

Example: `RaftHighWatermark(("http://broker1:7777/jolokia", "http://broker2:7777/jolokia"), "2").known()` is None at first, and 1042
half a second later, read from the second.
"""

import json
import threading
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

APP_INFO = "kafka.server:type=app-info,*"
MBEAN = "kafka.server:type=raft-metrics"
ATTRIBUTE = "high-watermark"
QUESTIONS = json.dumps([{"type": "read", "mbean": APP_INFO}, {"type": "read", "mbean": MBEAN, "attribute": ATTRIBUTE}]).encode()
POLL_SECONDS = 0.5
ANSWER_SECONDS = 2.0
FRESH_SECONDS = 3.0


def node_of(folder: Path) -> str | None:
    """The id of the node that a metadata log's folder belongs to, by the meta.properties beside it; None where there is none."""
    try:
        text = (folder.parent / "meta.properties").read_text(encoding="utf-8")
    except OSError:
        return None
    found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return found.get("node.id", found.get("broker.id"))


class RaftHighWatermark:
    """How far the metadata log of a node is committed, by the one of the Jolokia agents at `urls` that is the node's own.

    `node` is the node's id; None: there must be one agent only, which is believed. Polls from its making until `stop`.
    """

    def __init__(self, urls: Sequence[str], node: str | None) -> None:
        self._urls = [url.rstrip("/") for url in urls]
        self._node = node
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
            for url in list(self._urls):
                value = self._ask(url)
                if value is not None:
                    self._known = (value, time.monotonic())
                    # It is asked first from now on: the others, which may hang, are none of our concern.
                    self._urls.remove(url)
                    self._urls.insert(0, url)
                    break

    def _ask(self, url: str) -> int | None:
        try:
            with self._opener.open(url, QUESTIONS, timeout=ANSWER_SECONDS) as response:
                return self._read(json.load(response))
        except (OSError, ValueError, AttributeError, TypeError, KeyError):
            return None  # no news, or not Jolokia's answer; `known` says so when it lasts

    def _read(self, answers: Any) -> int | None:
        info, mark = (answer.get("value") for answer in answers)
        ids = {bean.partition("id=")[2].partition(",")[0] for bean in info}
        is_own = len(self._urls) == 1 if self._node is None else self._node in ids
        return int(mark) if is_own and isinstance(mark, int | float) and mark >= 0 else None
