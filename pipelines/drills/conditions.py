"""What can a drill wait for? A table of forms and small functions that look at the cluster, the live files or the witnesses.

The rule: a pause ends when all its conditions hold at once; it never ends because time has passed, except where the time itself is
the fault (`N s have passed`). A cluster that does not answer is an answer of no.

Example: `isr of ledger/0 is leader-of-then` holds when the cluster's metadata shows just that broker in sync.
"""

import re
from collections.abc import Callable
from typing import Any

from pipelines.brokers.base import Shard
from pipelines.brokers.kafka.admin import PartitionState
from pipelines.drills.context import Context
from pipelines.errors import LastackError

Holds = Callable[[Context, "re.Match[str]"], bool]


def _is_served(context: Context, _found: Any) -> bool:
    return context.measurement.is_serving()


def _is_not_served(context: Context, _found: Any) -> bool:
    return any(view.down for view in context.measurement.live())


def _is_in_sync(context: Context, _found: Any) -> bool:
    states = context.lab.metadata().partitions().values()
    return bool(states) and all(one.is_whole for one in states)


def _acknowledges(context: Context, found: Any) -> bool:
    """Every partition of the witness was acknowledged since the step began."""
    witness = context.witnesses[found["topic"]]
    # By the newest metadata: whoever asks a broker that hangs waits for it.
    told = context.lab.metadata().topics.get(found["topic"])
    since = context.step_began_at_us / 1000
    return told is not None and len({one.partition for one in witness.acknowledged() if one.at_ms > since}) == len(told.partitions)


def _has_acknowledged(context: Context, found: Any) -> bool:
    """So many records of a partition were acknowledged since the step began."""
    witness = context.witnesses[found["topic"]]
    since = context.step_began_at_us / 1000
    acked = sum(one.partition == int(found["partition"]) and one.at_ms > since for one in witness.acknowledged())
    return acked >= int(found["count"])


def _isr_is(context: Context, found: Any) -> bool:
    state = _state(context, found)
    wanted = {node.node_id for role in re.split(r",\s*", found["roles"]) for node in context.roles[role]}
    return set(state.isr) == wanted


def _isr_lacks(context: Context, found: Any) -> bool:
    state = _state(context, found)
    return not {node.node_id for node in context.roles[found["role"]]} & set(state.isr)


def _isr_has(context: Context, found: Any) -> bool:
    state = _state(context, found)
    return {node.node_id for node in context.roles[found["role"]]} <= set(state.isr)


def _is_led(context: Context, found: Any) -> bool:
    state = _state(context, found)
    return state.leader == context.node_of(found["role"]).node_id


def _is_led_by_other(context: Context, found: Any) -> bool:
    state = _state(context, found)
    return state.leader not in (None, context.node_of(found["role"]).node_id)


def _is_leaderless(context: Context, found: Any) -> bool:
    state = _state(context, found)
    return state.leader is None


def _is_fenced(context: Context, found: Any) -> bool:
    return not {node.node_id for node in context.roles[found["role"]]} & set(context.lab.metadata().brokers)


def _is_back(context: Context, found: Any) -> bool:
    return {node.node_id for node in context.roles[found["role"]]} <= set(context.lab.metadata().brokers)


def _has_controller(context: Context, found: Any) -> bool:
    hit = {node.node_id for node in context.roles[found["role"]]}
    return context.lab.active_controller(timeout=5).node_id not in hit


def _has_passed(context: Context, found: Any) -> bool:
    return context.anchor.now_us() - context.step_began_at_us >= float(found["seconds"]) * 1e6


def _begins_at(context: Context, found: Any) -> bool:
    """The log of the partition begins at or after an offset: what was before is deleted."""
    from pipelines.brokers.kafka.client_properties import load
    from pipelines.brokers.kafka.log_ranges import log_ranges

    ranges = log_ranges(load(context.lab.bootstrap, None), [found["topic"]])
    return ranges[Shard(found["topic"], found["partition"])].log_start >= int(found["offset"])


def _is_compacted(context: Context, found: Any) -> bool:
    """The leader's own checkpoint says that it has cleaned the partition up to some offset."""
    leader = context.lab.leader(found["topic"], int(found["partition"]))
    path = None if leader is None else leader.data_dir / CLEANED
    lines = path.read_text().splitlines() if path is not None and path.is_file() else []
    return any(line.split()[:2] == [found["topic"], found["partition"]] and int(line.split()[2]) > 0 for line in lines)


def _state(context: Context, found: Any) -> PartitionState:
    # By the newest metadata: a broker that hangs or is cut off is not the one to be asked.
    return context.lab.partition(found["topic"], int(found["partition"]))


CLEANED = "cleaner-offset-checkpoint"
PARTITION = r"(?P<topic>[\w.-]+)/(?P<partition>\d+)"
ROLE = r"(?P<role>[\w-]+)"
FORMS: dict[str, tuple[str, Holds]] = {
    "served": (r"served", _is_served),
    "not served": (r"not served", _is_not_served),
    "in sync": (r"in sync", _is_in_sync),
    "TOPIC acknowledges": (r"(?P<topic>[\w.-]+) acknowledges", _acknowledges),
    "N records acknowledged on TOPIC/P": (rf"(?P<count>\d+) records acknowledged on {PARTITION}", _has_acknowledged),
    "isr of TOPIC/P is ROLE, ..": (rf"isr of {PARTITION} is (?P<roles>[\w-]+(?:,\s*[\w-]+)*)", _isr_is),
    "isr of TOPIC/P lacks ROLE": (rf"isr of {PARTITION} lacks {ROLE}", _isr_lacks),
    "isr of TOPIC/P has ROLE": (rf"isr of {PARTITION} has {ROLE}", _isr_has),
    "leader of TOPIC/P is not ROLE": (rf"leader of {PARTITION} is not {ROLE}", _is_led_by_other),
    "leader of TOPIC/P is ROLE": (rf"leader of {PARTITION} is {ROLE}", _is_led),
    "TOPIC/P has no leader": (rf"{PARTITION} has no leader", _is_leaderless),
    "ROLE is fenced": (rf"{ROLE} is fenced", _is_fenced),
    "ROLE is back": (rf"{ROLE} is back", _is_back),
    "active controller is not ROLE": (rf"active controller is not {ROLE}", _has_controller),
    "log of TOPIC/P begins at N": (rf"log of {PARTITION} begins at (?P<offset>\d+)", _begins_at),
    "log of TOPIC/P compacts": (rf"log of {PARTITION} compacts", _is_compacted),
    "N s have passed": (r"(?P<seconds>\d+(?:\.\d+)?) s have passed", _has_passed),
}
"""Each condition as people write it, its form, and the function that looks."""


def problem(text: str, roles: set[str]) -> str | None:
    """What is wrong with a condition; None where nothing is."""
    for form, _ in FORMS.values():
        found = re.fullmatch(form, text)
        if found:
            named = {found[name] for name in ("role",) if name in found.re.groupindex}
            if "roles" in found.re.groupindex:
                named |= set(re.split(r",\s*", found["roles"]))
            unknown = sorted(named - roles)
            return f"{unknown[0]!r} is no role of an earlier step ({', '.join(sorted(roles)) or 'there is none'})" if unknown else None
    return f"{text!r} is no condition; one of {'; '.join(FORMS)}"


def holds(context: Context, text: str) -> bool:
    """Whether a condition holds now; a cluster that does not answer is an answer of no."""
    for form, look in FORMS.values():
        found = re.fullmatch(form, text)
        if found:
            try:
                return look(context, found)
            except LastackError:
                return False
    return False
