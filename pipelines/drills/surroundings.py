"""What can be done to the network and the disks that brokers stand on? The second part of the table of actions.

The rule is that of `faults`: what returns was seen to have taken effect, which the lab does with echoes and writes of its own.

Example: `cut {from: [brokers, controllers]}` of the leader leaves it with its clients, and without anybody who follows it: a zombie.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pipelines.drills import targets
from pipelines.drills.actions import Action, Done, done_of
from pipelines.drills.context import Context
from pipelines.errors import LabError
from pipelines.lab import Fault, Node
from pipelines.lab.faults import Place

PROBER, BROKERS, CONTROLLERS, ZOOKEEPER = "prober", "brokers", "controllers", "zookeeper"


def _places(context: Context, node: Node, words: Sequence[str]) -> list[Place]:
    """The other hosts that are meant: `prober`, `brokers`, `controllers`, `zookeeper`, or targets."""
    found: list[Place] = []
    for word in words:
        if word == PROBER:
            found.append(context.lab.prober)
        elif word == BROKERS:
            found += context.lab.nodes
        elif word == CONTROLLERS:
            found += context.lab.controller_nodes
        elif word == ZOOKEEPER:
            found += context.lab.zookeepers
        else:
            found += targets.resolve(context, word)
    return [one for one in found if one is not node]


def _words(told: Mapping[str, Any], name: str) -> list[str]:
    value = told[name]
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]


def _each(do: Callable[[Context, Node, Mapping[str, Any]], Fault]) -> Callable[..., list[Done]]:
    def run(context: Context, nodes: Sequence[Node], told: Mapping[str, Any]) -> list[Done]:
        return [done_of(do(context, node, told)) for node in nodes]

    return run


def _cut(context: Context, node: Node, told: Mapping[str, Any]) -> Fault:
    return context.lab.cut(node, _places(context, node, _words(told, "from")) if "from" in told else None)


def _heal(context: Context, node: Node, told: Mapping[str, Any]) -> Fault:
    return context.lab.heal(node, _places(context, node, _words(told, "from")) if "from" in told else None)


def _slow(context: Context, node: Node, told: Mapping[str, Any]) -> Fault:
    towards = _places(context, node, _words(told, "towards")) if "towards" in told else None
    rate = told.get("rate-kbit")
    delay, jitter = float(told.get("delay-ms", 0)), float(told.get("jitter-ms", 0))
    return context.lab.slow(node, delay, jitter, None if rate is None else float(rate), towards)


def _cut_prober(context: Context, _nodes: Sequence[Node], _told: Mapping[str, Any]) -> list[Done]:
    return [done_of(context.lab.cut(context.lab.prober))]


def _heal_prober(context: Context, _nodes: Sequence[Node], _told: Mapping[str, Any]) -> list[Done]:
    return [done_of(context.lab.heal(context.lab.prober))]


def _lose_zone(context: Context, _nodes: Sequence[Node], told: Mapping[str, Any]) -> list[Done]:
    return [done_of(one) for one in context.lab.lose_zone(str(told["zone"]))]


def _start_zone(context: Context, _nodes: Sequence[Node], told: Mapping[str, Any]) -> list[Done]:
    return [done_of(one) for one in context.lab.start_all(context.lab.zone_nodes(str(told["zone"])))]


def _start_together(context: Context, nodes: Sequence[Node], _told: Mapping[str, Any]) -> list[Done]:
    return [done_of(one) for one in context.lab.start_all(list(nodes))]


def _copy_data(context: Context, nodes: Sequence[Node], _told: Mapping[str, Any]) -> list[Done]:
    done = []
    for node in nodes:
        copy = context.lab.copy_data(node)
        context.copies[node.node_id] = copy
        done.append(Done("copy-data", str(node.node_id), copy.from_at_us, copy.until_at_us, context.anchor.now_us()))
    return done


def _roll_back(context: Context, node: Node, _told: Mapping[str, Any]) -> Fault:
    copy = context.copies.get(node.node_id)
    if copy is None:
        raise LabError(f"{node.name} has no copy to be rolled back to: copy-data comes first")
    return context.lab.roll_back_data(node, copy)


ACTIONS: dict[str, Action] = {
    "cut": Action(_each(_cut), needed=("from",)),
    "cut-off": Action(_each(_cut), stops=True),
    "heal": Action(_each(_heal), optional=("from",)),
    "slow": Action(_each(_slow), optional=("delay-ms", "jitter-ms", "rate-kbit", "towards")),
    "unslow": Action(_each(lambda context, node, _told: context.lab.unslow(node))),
    "cut-prober": Action(_cut_prober, has_target=False),
    "heal-prober": Action(_heal_prober, has_target=False),
    "lose-zone": Action(_lose_zone, has_target=False, needed=("zone",), stops=True),
    "start-zone": Action(_start_zone, has_target=False, needed=("zone",)),
    "start-together": Action(_start_together),
    "fill-disk": Action(_each(lambda context, node, _told: context.lab.fill_disk(node))),
    "free-disk": Action(_each(lambda context, node, _told: context.lab.free_disk(node))),
    "read-only": Action(_each(lambda context, node, _told: context.lab.read_only(node))),
    "writable": Action(_each(lambda context, node, _told: context.lab.writable(node))),
    "copy-data": Action(_copy_data),
    "roll-back-data": Action(_each(_roll_back)),
}
