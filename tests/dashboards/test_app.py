import os
import signal
import socket
import subprocess
import sys

import pytest

from dashboards.app import all_pages, create_app
from dashboards.screenshot import SERVE
from dashboards.server import serve
from pipelines.errors import UsageError
from pipelines.processes import spawn, wait_until
from pipelines.settings import Home

LIMIT_SECONDS = 60.0


@pytest.fixture
def client(measured):
    return create_app(measured).server.test_client()


def test_healthz_is_one_word_when_the_lakehouse_can_be_read(client):
    answer = client.get("/healthz")
    assert (answer.status_code, answer.text, answer.mimetype) == (200, "ok\n", "text/plain")


def test_healthz_says_in_one_line_what_is_wrong(client, measured):
    (measured.table("gold.incidents") / "_delta_log" / f"{0:020d}.json").write_text("{")
    answer = client.get("/healthz")
    assert answer.status_code == 503
    assert answer.text.startswith("table gold.incidents cannot be read")
    assert answer.text.count("\n") == 1


def test_healthz_of_a_home_that_is_not_there_fails(tmp_path):
    answer = create_app(Home(tmp_path / "nothing")).server.test_client().get("/healthz")
    assert answer.status_code == 503


def test_metrics_are_prometheus_text_not_a_page(client):
    answer = client.get("/metrics")
    assert answer.mimetype == "text/plain"
    assert "# TYPE lastack_build_info gauge" in answer.text


def test_every_page_is_found_by_itself():
    assert {page.path for page in all_pages()} == {"/", "/incidents/<incident_id>", "/proof/<figure>"}


def test_every_asset_is_local_and_nothing_is_in_debug_mode(measured):
    app = create_app(measured)
    page = app.server.test_client().get("/").text
    assert 'src="http' not in page
    assert 'href="http' not in page
    assert '"serve_locally":true' in page.replace(" ", "") or "serve_locally" not in page
    assert not app.server.debug
    assert '<html lang="en">' in page


def test_the_pages_start_no_jvm_and_load_no_spark():
    code = (
        "import sys, dashboards.app; print([name for name in ('pyspark', 'delta', 'confluent_kafka', 'kafka') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


# --- the server -------------------------------------------------------------------------------------------------------


@pytest.fixture
def served(measured, tmp_path):
    child = spawn("pages", [sys.executable, "-c", SERVE, str(measured.path)], tmp_path / "pages.log")
    wait_until(lambda: "http://" in child.log_tail() or not child.is_alive(), LIMIT_SECONDS, "the pages")
    yield child
    child.stop()


def port_of(child):
    return int(child.log_tail().rpartition(":")[2].strip().rstrip("/"))


def is_answered(port):
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def test_port_0_is_a_free_one_that_is_printed_and_answers(served):
    assert served.log_tail().startswith("Lastack's pages: http://127.0.0.1:")
    assert is_answered(port_of(served))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once_and_in_order(served, number):
    port = port_of(served)
    os.kill(served.pid, number)
    assert served.wait(15) == 0
    assert not is_answered(port)


def test_when_it_is_killed_its_worker_ends_too(served):
    port = port_of(served)
    os.kill(served.pid, signal.SIGKILL)
    wait_until(lambda: not is_answered(port), 20, "the worker to notice that its master is gone")


def test_a_port_that_is_taken_is_one_clear_line(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UsageError, match=r"cannot be served at 127\.0\.0\.1:.*name another port"):
            serve(tmp_path, "127.0.0.1", taken.getsockname()[1])


def test_beyond_loopback_it_refuses(tmp_path):
    with pytest.raises(UsageError, match="loopback only"):
        serve(tmp_path, "0.0.0.0", 0)
