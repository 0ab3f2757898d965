"""Whom does an action hit? Roles are resolved when the action is due, by what the cluster is then.

The rule: a target is one of the forms of `FORMS`, or a role that an earlier step gave with `as`. It is resolved once; the role then
stays with those nodes, whatever they become.

Example: `leader of witness-all/0` is node 2 when the step begins; `as: victim` makes `victim` node 2 for the rest of the drill.
"""

import re
from collections.abc import Callable
from typing import Any

from pipelines.drills.context import Context
from pipelines.errors import LabError
from pipelines.lab import Node

Resolver = Callable[[Context, "re.Match[str]"], list[Node]]


def _leader(context: Context, found: "re.Match[str]") -> list[Node]:
    leader = context.lab.leader(found["topic"], int(found["partition"]))
    if leader is None:
        raise LabError(f"{found['topic']}/{found['partition']} has no leader, so there is nobody to hit")
    return [leader]


def _follower(context: Context, found: "re.Match[str]") -> list[Node]:
    leader = _leader(context, found)[0]
    state = context.lab.partition(found["topic"], int(found["partition"]))
    followers = [context.lab.node(one) for one in state.isr if one != leader.node_id]
    if not followers:
        raise LabError(f"{found['topic']}/{found['partition']} has no follower in sync, so there is nobody to hit")
    controller = context.lab.active_controller()
    # One that is not the controller, where there is one: the drill is about the follower.
    return sorted(followers, key=lambda node: (node.node_id == controller.node_id, node.node_id))[:1]


def _controller(context: Context, _found: "re.Match[str]") -> list[Node]:
    return [context.lab.active_controller()]


def _not_controller(context: Context, _found: "re.Match[str]") -> list[Node]:
    controller = context.lab.active_controller()
    return [next(node for node in context.lab.nodes if node.node_id != controller.node_id)]


def _every(context: Context, _found: "re.Match[str]") -> list[Node]:
    return list(context.lab.nodes)


def _node(context: Context, found: "re.Match[str]") -> list[Node]:
    return [context.lab.node(int(found["node"]))]


def _others(context: Context, found: "re.Match[str]") -> list[Node]:
    hit = {node.node_id for node in context.roles[found["role"]]}
    return [node for node in context.lab.nodes if node.node_id not in hit]


def _rack(context: Context, found: "re.Match[str]") -> list[Node]:
    settings = {node.node_id: context.lab.admin.broker_settings(node.node_id).get("broker.rack") for node in context.lab.nodes}
    nodes = [node for node in context.lab.nodes if settings[node.node_id] == found["rack"]]
    if not nodes:
        raise LabError(f"no broker is in rack {found['rack']}; there are {', '.join(sorted(filter(None, settings.values())))}")
    return nodes


FORMS: dict[str, Resolver] = {
    r"leader of (?P<topic>[\w.-]+)/(?P<partition>\d+)": _leader,
    r"a follower of (?P<topic>[\w.-]+)/(?P<partition>\d+)": _follower,
    r"active controller": _controller,
    r"not the controller": _not_controller,
    r"every broker": _every,
    r"node (?P<node>\d+)": _node,
    r"rack (?P<rack>[\w.-]+)": _rack,
    r"not (?P<role>[\w-]+)": _others,
}
SHOWN = ("leader of TOPIC/P", "a follower of TOPIC/P", "active controller", "not the controller", "every broker", "node N", "rack R",
         "not ROLE")  # fmt: skip


def problem(target: str, roles: set[str]) -> str | None:
    """What is wrong with a target; None where nothing is."""
    if target in roles:
        return None
    for form in FORMS:
        found = re.fullmatch(form, target)
        if found and ("role" not in found.re.groupindex or found["role"] in roles):
            return None
    named = f", or a role of this drill ({', '.join(sorted(roles))})" if roles else ""
    return f"{target!r} is no target; one of {', '.join(SHOWN)}{named}"


def resolve(context: Context, target: str) -> list[Node]:
    """The nodes of a target now, in order of their ids. Raises LabError where there are none."""
    if target in context.roles:
        return context.roles[target]
    for form, resolver in FORMS.items():
        found: Any = re.fullmatch(form, target)
        if found:
            return resolver(context, found)
    raise LabError(f"{target!r} is no target")
