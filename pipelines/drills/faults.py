"""What can be done to a cluster? A table of names and small functions.

The rule: an action returns what it did, one `Done` for each thing, with the instants just before, just after, and when the effect
had been seen; it does not return before it was. What the lab does verifies itself; what goes through the cluster's admin API is read
back. Whether the *cluster* felt it (an ISR that is really [1], a leader that really changed) is a condition of the step (`until`).

Example: `ACTIONS["kill"].run(context, [node 2], {})` is [Done("kill", "2", before_at_us, after_at_us, verified_at_us)].
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipelines.drills import surroundings
from pipelines.drills.actions import Action, Done, Run, done_of
from pipelines.drills.context import Context
from pipelines.drills.tools import run_tool
from pipelines.errors import LabError
from pipelines.lab import Fault, Node
from pipelines.processes import wait_until

TOPIC_SECONDS = 30.0
TOOL_SECONDS = 60.0


def _of_lab(hurt: Callable[[Context, Node], Fault]) -> Run:
    """An action that the lab does to one node after the other."""

    def run(context: Context, nodes: Sequence[Node], _arguments: Mapping[str, Any]) -> list[Done]:
        faults = [hurt(context, node) for node in nodes]
        return [done_of(one) for one in faults]

    return run


def _choose(_context: Context, _nodes: Sequence[Node], _arguments: Mapping[str, Any]) -> list[Done]:
    """Nothing is done: the target only gets its role, while it still is what it is chosen for."""
    return []


def _kill_if_alive(context: Context, nodes: Sequence[Node], _arguments: Mapping[str, Any]) -> list[Done]:
    """For rollbacks: what has ended by itself need not be killed."""
    return [done_of(context.lab.kill(node)) for node in nodes if node.is_alive()]


def _rolling(context: Context, nodes: Sequence[Node], _arguments: Mapping[str, Any]) -> list[Done]:
    """A restart as an operator does it: one broker after the other, each only when everything is in sync again."""
    done: list[Done] = []
    for node in nodes:
        done += [done_of(fault) for fault in (context.lab.terminate(node), context.lab.start(node))]
        context.say(f"node {node.node_id} is restarted; waiting for every replica")
        context.lab.wait_until_in_sync(TOPIC_SECONDS * 4)
        context.measurement.wait_steady(TOPIC_SECONDS * 4)
    return done


def _to_topic(action: str, topic: str, context: Context, do: Callable[[], object], has_effect: Callable[[], bool]) -> list[Done]:
    before = context.anchor.now_us()
    do()
    after = context.anchor.now_us()
    wait_until(has_effect, TOPIC_SECONDS, f"{action} of {topic} to be seen in the cluster")
    return [Done(action, topic, before, after, context.anchor.now_us())]


def _create_topic(context: Context, _nodes: Sequence[Node], told: Mapping[str, Any]) -> list[Done]:
    topic, admin = str(told["topic"]), context.lab.admin
    settings = {name: str(value) for name, value in dict(told.get("settings") or {}).items()}

    def create() -> None:
        admin.create_topic(topic, int(told.get("partitions", 1)), int(told.get("replicas", 3)), settings)

    def is_there() -> bool:
        states = admin.partitions(topic)
        return bool(states) and all(state.is_whole for state in states)

    return _to_topic("create-topic", topic, context, create, is_there)


def _delete_topic(context: Context, _nodes: Sequence[Node], told: Mapping[str, Any]) -> list[Done]:
    topic, admin = str(told["topic"]), context.lab.admin
    return _to_topic("delete-topic", topic, context, lambda: admin.delete_topic(topic), lambda: topic not in admin.topics())


def _alter_topic(context: Context, _nodes: Sequence[Node], told: Mapping[str, Any]) -> list[Done]:
    topic, admin = str(told["topic"]), context.lab.admin
    settings = {name: str(value) for name, value in dict(told["settings"]).items()}

    def is_set() -> bool:
        found = admin.topic_settings(topic)
        return all(found.get(name) == value for name, value in settings.items())

    return _to_topic("alter-topic", topic, context, lambda: admin.alter_topic(topic, settings), is_set)


def _delete_records(context: Context, _nodes: Sequence[Node], told: Mapping[str, Any]) -> list[Done]:
    """DeleteRecords by Kafka's own tool, up to an offset (or -1, the high watermark) of some partitions."""
    topic = str(told["topic"])
    offset = int(told.get("up-to", -1))
    partitions = [int(one) for one in told["partitions"]]
    asked = [{"topic": topic, "partition": one, "offset": offset} for one in partitions]
    return _by_tool(context, "delete-records", topic, asked)


def _by_tool(context: Context, action: str, topic: str, asked: list[dict[str, Any]]) -> list[Done]:
    path = Path(context.folder) / f"{action}-{context.anchor.now_us()}.json"
    path.write_text(json.dumps({"version": 1, "partitions": asked}), encoding="utf-8")
    before = context.anchor.now_us()
    said = run_tool(
        "org.apache.kafka.tools.DeleteRecordsCommand",
        ["--bootstrap-server", context.lab.bootstrap, "--offset-json-file", str(path)],
        path.with_suffix(".log"),
        TOOL_SECONDS,
    )
    after = context.anchor.now_us()
    if said.count("low_watermark") < len(asked):
        raise LabError(f"{action} of {topic} did not take: {said.strip().splitlines()[-1:] or 'it said nothing'}")
    return [Done(action, topic, before, after, context.anchor.now_us())]


def _transactions(context: Context, _nodes: Sequence[Node], told: Mapping[str, Any]) -> list[Done]:
    """Transactions by librdkafka's producer, every second one aborted."""
    from pipelines.brokers.kafka.transactions import write_transactions

    topic = str(told["topic"])
    before = context.anchor.now_us()
    write_transactions(context.lab.librdkafka, topic, int(told.get("transactions", 10)), int(told.get("records", 20)))
    after = context.anchor.now_us()
    return [Done("transactions", topic, before, after, context.anchor.now_us())]


ACTIONS: dict[str, Action] = {
    "kill": Action(_of_lab(lambda context, node: context.lab.kill(node)), stops=True),
    "terminate": Action(_of_lab(lambda context, node: context.lab.terminate(node))),
    "pause": Action(_of_lab(lambda context, node: context.lab.pause(node)), stops=True),
    "resume": Action(_of_lab(lambda context, node: context.lab.resume(node))),
    "start": Action(_of_lab(lambda context, node: context.lab.start(node))),
    "choose": Action(_choose),
    "kill-if-alive": Action(_kill_if_alive),
    "rolling-restart": Action(_rolling),
    "create-topic": Action(_create_topic, has_target=False, needed=("topic",), optional=("partitions", "replicas", "settings")),
    "delete-topic": Action(_delete_topic, has_target=False, needed=("topic",)),
    "alter-topic": Action(_alter_topic, has_target=False, needed=("topic", "settings")),
    "delete-records": Action(_delete_records, has_target=False, needed=("topic", "partitions"), optional=("up-to",)),
    "transactions": Action(_transactions, has_target=False, needed=("topic",), optional=("transactions", "records")),
    **surroundings.ACTIONS,
}
"""Every action by its name."""
