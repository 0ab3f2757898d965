"""A node's high watermark is taken from its own agent, whatever the others say."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pipelines.brokers.kafka.raft_metrics import APP_INFO, RaftHighWatermark, node_of
from pipelines.processes import wait_until

Start = Callable[[Any], str]


@contextmanager
def serving(answer: Any) -> Iterator[str]:
    """An agent that gives one answer to everything; None: it takes the question and says nothing."""
    ended = threading.Event()

    class Agent(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert [one["mbean"] for one in asked] == [APP_INFO, "kafka.server:type=raft-metrics"]
            if answer is None:
                ended.wait(30)
                return
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Nothing: a test's server has no log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Agent)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/jolokia/"
    finally:
        ended.set()
        server.shutdown()
        server.server_close()


@pytest.fixture
def agent() -> Iterator[Start]:
    with ExitStack() as stack:
        yield lambda answer: stack.enter_context(serving(answer))


def answer(node: str, mark: float) -> list[dict[str, Any]]:
    return [{"value": {f"kafka.server:id={node},type=app-info": {"Version": "4.3.1"}}, "status": 200}, {"value": mark, "status": 200}]


def heard(urls: list[str], node: str | None) -> int | None:
    """What is known after some polls; None is waited for as long as something is."""
    mark = RaftHighWatermark(urls, node)
    try:
        wait_until(lambda: mark.known() is not None, 5, "a high watermark")
        return mark.known()
    finally:
        mark.stop()


def test_the_node_s_own_agent_is_believed_and_no_other(agent: Start) -> None:
    urls = [agent(answer("1", 2000.0)), agent({"error": "no Jolokia"}), agent(answer("2", 1042.0))]

    assert heard(urls, "2") == 1042


def test_an_agent_that_hangs_delays_and_hides_nothing(agent: Start) -> None:
    assert heard([agent(None), agent(answer("2", 7.0))], "2") == 7


def test_without_the_node_s_id_one_agent_is_believed(agent: Start) -> None:
    assert heard([agent(answer("1", 3.0))], None) == 3


def test_what_no_agent_of_the_node_says_is_not_known(agent: Start) -> None:
    mark = RaftHighWatermark([agent(answer("1", 3.0)), agent(answer("3", -1.0))], "3")
    try:
        assert mark._ask(mark._urls[0]) is None
        assert mark._ask(mark._urls[1]) is None
        assert mark.known() is None
    finally:
        mark.stop()


@pytest.mark.parametrize(("text", "node"), [("#\nnode.id=3\nversion=1\n", "3"), ("broker.id=2\n", "2"), ("", None), (None, None)])
def test_the_node_is_told_by_the_file_beside_its_log(tmp_path: Path, text: str | None, node: str | None) -> None:
    if text is not None:
        (tmp_path / "meta.properties").write_text(text)

    assert node_of(tmp_path / "__cluster_metadata-0") == node
