import dataclasses

import pytest

from pipelines.domain.health import (
    ClusterState,
    LiveOutage,
    LiveView,
    StreamProgress,
    StreamState,
    cluster_health,
    stream_state,
)

NOW_US = 1_795_000_000_000_000
OUTAGE = LiveOutage(
    outage_id="o", resource="t", shard="0", kind="write", lane="raw", started_at_min_us=None, started_at_max_us=NOW_US, rto_ms_min=1.0
)


def view(age_s=0.5, **more):
    given = {
        "system": "kafka",
        "cluster_id": "c",
        "prober_id": "p",
        "written_at_us": NOW_US - round(age_s * 1e6),
        "state": "measuring",
        "blind_since_us": None,
        "up": 18,
        "down": 0,
        "unmeasured": 0,
        "open": (),
        "recent": (),
    }
    return LiveView(**(given | more))


def state_of(*views, known=()):
    (only,) = cluster_health(views, known, NOW_US)
    return only.state


def progress(age_s=1.0, **more):
    given = {
        "batch_id": 3,
        "state": StreamState.RUNNING,
        "started_at_us": 0,
        "written_at_us": NOW_US - round(age_s * 1e6),
        "rows": 1,
        "quarantined": 0,
        "batch_ms": 2000.0,
        "landing_files_waiting": 0,
        "newest_event_at_us": None,
        "error": None,
    }
    return StreamProgress(**(given | more))


@pytest.mark.parametrize(
    ("views", "expected"),
    [
        ([view()], ClusterState.SERVING),
        ([view(down=1)], ClusterState.OUTAGE),
        ([view(open=(OUTAGE,))], ClusterState.OUTAGE),
        ([view(state="blind")], ClusterState.UNMEASURED),
        ([view(state="stopped")], ClusterState.UNMEASURED),
        ([view(unmeasured=2)], ClusterState.UNMEASURED),
        ([view(up=0)], ClusterState.UNMEASURED),
        ([view(age_s=6)], ClusterState.STALE),
        ([view(age_s=6, down=3)], ClusterState.STALE),
        ([view(age_s=-6)], ClusterState.STALE),
        ([view(age_s=4.9)], ClusterState.SERVING),
        ([view(), view(prober_id="q", state="blind")], ClusterState.SERVING),
        ([view(), view(prober_id="q", age_s=60, down=4)], ClusterState.SERVING),
        ([view(), view(prober_id="q", down=1)], ClusterState.OUTAGE),
        ([view(unmeasured=1, down=1)], ClusterState.OUTAGE),
    ],
)
def test_a_cluster_is_in_the_state_that_its_probers_prove(views, expected):
    assert state_of(*views) == expected


def test_a_cluster_that_only_the_tables_know_is_unmeasured_never_serving():
    assert state_of(known=[("kafka", "c")]) == ClusterState.UNMEASURED


def test_the_worst_cluster_comes_first():
    views = [view(cluster_id="a"), view(cluster_id="b", down=1), view(cluster_id="d", age_s=9)]
    found = cluster_health(views, [("kafka", "e")], NOW_US)
    assert [one.cluster_id for one in found] == ["b", "d", "e", "a"]


def test_what_a_silent_prober_last_saw_is_said_as_past():
    (only,) = cluster_health([view(age_s=30, open=(OUTAGE, dataclasses.replace(OUTAGE, outage_id="q")))], [], NOW_US)
    assert only.reason == "prober p is silent; 2 outages were open then"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, StreamState.ABSENT),
        (progress(), StreamState.RUNNING),
        (progress(14.9), StreamState.RUNNING),
        (progress(15.1), StreamState.STALE),
        (progress(20, batch_ms=9000.0), StreamState.RUNNING),
        (progress(-20), StreamState.STALE),
        (progress(40, state=StreamState.STARTING, batch_id=None), StreamState.STARTING),
        (progress(61, state=StreamState.STARTING, batch_id=None), StreamState.STALE),
        (progress(5, state=StreamState.DRAINING), StreamState.DRAINING),
        (progress(900, state=StreamState.STOPPED), StreamState.STOPPED),
        (progress(1, state=StreamState.FAILED), StreamState.FAILED),
    ],
)
def test_the_stream_is_in_the_state_that_its_own_word_and_its_age_say(given, expected):
    assert stream_state(given, NOW_US) == expected
