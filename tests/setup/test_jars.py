"""The JAR cache gives a name only to bytes that were pinned."""

import hashlib
import io
import os

import pytest
from rich.console import Console

from pipelines import jars
from pipelines.errors import DownloadError
from pipelines.jars import cache
from pipelines.jars.__main__ import is_shipped_with_spark
from pipelines.jars.lock import SETS, Jar, Root, lock_path, read_lock, write_lock

CONTENT = {
    "org.one:alpha:1.0": b"alpha's bytes",
    "org.one:beta:2.1": b"beta's bytes",
    "org.two:agent:3.0:javaagent": b"the agent's bytes",
}


class Repository:
    """Where JARs come from in these tests: counts what it was asked for, and may serve something else than it should."""

    def __init__(self):
        self.content = dict(CONTENT)
        self.asked = []
        self.breaks = 0

    def fetch(self, jar, into, got_bytes):
        self.asked.append(jar.coordinate)
        if self.breaks > 0:
            self.breaks -= 1
            raise ConnectionResetError("the other side hung up")
        path = into / "arrived.jar"
        path.write_bytes(self.content[jar.coordinate])
        got_bytes(path.stat().st_size)
        return path


@pytest.fixture
def repository():
    return Repository()


@pytest.fixture
def lock(tmp_path):
    path = tmp_path / "some.lock"
    write_lock(path, ("# some",), [Jar(name, hashlib.sha256(data).hexdigest()) for name, data in CONTENT.items()])
    return path


@pytest.fixture
def ensure(tmp_path, lock, repository):
    console = Console(file=io.StringIO(), width=200)

    def run():
        return jars.ensure("some", tmp_path / "cache", lock, repository.fetch, console)

    run.console = console
    return run


def test_what_is_missing_is_fetched_and_what_is_there_is_not_fetched_again(ensure, repository):
    first = ensure()
    assert [path.name for path in first.paths] == ["alpha-1.0.jar", "beta-2.1.jar"]
    assert first.path_of("agent").read_bytes() == b"the agent's bytes"
    assert sorted(repository.asked) == sorted(CONTENT)
    assert ensure() == first
    assert len(repository.asked) == 3
    assert "some: 3 files to fetch" in ensure.console.file.getvalue()


def test_a_verified_file_is_not_read_again(ensure, monkeypatch):
    ensure()
    monkeypatch.setattr(cache, "sha256_of", lambda path: pytest.fail(f"{path} was read again"))
    ensure()


def test_a_damaged_file_is_fetched_again(ensure, repository):
    damaged = ensure().path_of("beta")
    damaged.write_bytes(b"beta's bytez")
    assert ensure().path_of("beta").read_bytes() == b"beta's bytes"
    assert repository.asked.count("org.one:beta:2.1") == 2


def test_a_file_that_was_only_touched_is_hashed_and_kept(ensure, repository):
    touched = ensure().path_of("beta")
    os.utime(touched, (1, 1))
    ensure()
    assert repository.asked.count("org.one:beta:2.1") == 1


def test_a_lost_memory_of_what_was_verified_costs_hashing_only(ensure, repository):
    folder = ensure().folder
    (folder / "some.verified.json").write_text("[1, 2")
    ensure()
    assert len(repository.asked) == 3


def test_bytes_other_than_pinned_are_an_error_and_get_no_name(ensure, repository, tmp_path):
    repository.content["org.one:alpha:1.0"] = b"somebody else's bytes"
    with pytest.raises(DownloadError, match=r"org\.one:alpha:1\.0: its SHA-256 is [0-9a-f]{64}, but [0-9a-f]{64} was pinned"):
        ensure()
    assert not list(tmp_path.rglob("alpha-1.0.jar"))
    assert not list(tmp_path.rglob(".fetch-*"))


def test_a_broken_transfer_is_tried_again_three_times_at_most(ensure, repository):
    repository.breaks = 2
    assert len(ensure().jars) == 3
    assert len(repository.asked) == 3 + 2


def test_a_transfer_that_breaks_every_time_says_so(ensure, repository):
    repository.breaks = 100
    with pytest.raises(DownloadError, match="ConnectionResetError: the other side hung up; check the network"):
        ensure()


def test_a_line_that_is_not_a_pin_is_named(tmp_path):
    path = tmp_path / "bad.lock"
    path.write_text("# heading\norg.one:alpha:1.0 sha256:xyz\n")
    with pytest.raises(DownloadError, match=r"bad\.lock:2: expected"):
        read_lock(path)


def test_an_artifact_that_is_not_pinned_is_named(ensure):
    with pytest.raises(DownloadError, match="no JAR of gamma is pinned"):
        ensure().path_of("gamma")


def test_the_cache_is_where_the_user_wants_it(tmp_path):
    assert jars.cache_folder({"LASTACK_CACHE": str(tmp_path)}) == tmp_path.resolve() / "jars"
    assert jars.cache_folder({"XDG_CACHE_HOME": "/somewhere"}).as_posix() == "/somewhere/lastack/jars"
    assert jars.cache_folder({}).parts[-3:] == (".cache", "lastack", "jars")


@pytest.mark.parametrize("name", SETS)
def test_each_lock_pins_its_roots_and_no_file_twice(name):
    lock = read_lock(lock_path(name))
    pinned = {jar.coordinate for jar in lock.jars}
    assert {root.coordinate for root in lock.roots} <= pinned
    assert len({jar.relative_path for jar in lock.jars}) == len(lock.jars)
    assert len({(jar.parts[0], jar.artifact, jar.parts[3]) for jar in lock.jars}) == len(lock.jars), "one artifact in two versions"


def test_spark_s_lock_leaves_out_what_spark_ships():
    lock = read_lock(lock_path("spark"))
    assert lock.omits_spark
    assert [jar.coordinate for jar in lock.jars if is_shipped_with_spark(jar.artifact)] == []
    assert is_shipped_with_spark("scala-library")
    assert is_shipped_with_spark("zstd-jni")
    assert not is_shipped_with_spark("kafka-clients")


def test_a_root_is_read_back_as_it_was_written(tmp_path):
    roots = (Root("org.one:alpha:1.0", False), Root("org.two:agent:3.0:javaagent", True))
    path = tmp_path / "some.lock"
    write_lock(path, tuple(str(root) for root in roots), [])
    assert read_lock(path).roots == roots
