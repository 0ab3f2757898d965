"""What does a drill say? The words of the Chaos Toolkit, read strictly from conf/drills/NAME.yml.

The rule: `steady-state-hypothesis` must hold before anything is done; `method` is a list of steps, each an action with a target,
a pause that ends when its conditions hold (`until`, `within` so many seconds), or both; `rollbacks` are steps that heal; `expect` is
what the tables must say then. A word that is not known is an error that names file, line and what is allowed, before anything starts.

Example:
    method:
      - {action: kill, target: leader of witness-all/0, as: victim, until: [not served], within: 30}
      - {until: [served], within: 60}
    rollbacks:
      - {action: start, target: victim}
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from pipelines.drills import conditions, faults, marked, targets
from pipelines.drills.actions import Action
from pipelines.drills.expectations import Expectation, read_expectation
from pipelines.drills.marked import Fields, Value
from pipelines.drills.records import KRAFT, MODES
from pipelines.errors import UsageError
from pipelines.lab.config import LabSpec
from pipelines.resources import resource

ACKS = {"all": -1, "1": 1}
WITHIN_SECONDS = 60.0
PROBERS_MAX = 9
RATE = 120
PARTITIONS = 6
REPLICAS = 3
NOT_SET_BY_A_DRILL = {"login", "mode"}
TOP = ("title", "description", "modes", "cluster", "topics", "witnesses", "steady-state-hypothesis", "method", "rollbacks", "expect",
       "coverage", "probers")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of the drill's own: its partitions and replicas, or who has which partition."""

    name: str
    partitions: int = PARTITIONS
    replicas: int = REPLICAS
    assignment: tuple[tuple[int, ...], ...] | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WitnessPlan:
    """Kafka's VerifiableProducer on one topic. `reads`: a VerifiableConsumer reads it, too; of acks=all, where nothing else is said."""

    topic: str
    acks: int
    rate: int = RATE
    reads: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """An action, a pause, or an action and a pause."""

    line: int
    action: str | None = None
    target: str | None = None
    role: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)
    until: tuple[str, ...] = ()
    within_seconds: float = WITHIN_SECONDS


@dataclass(frozen=True, slots=True)
class Drill:
    """One drill, as its file says it.

    `coverage` is the share of the time that must have been measured on every stream. `probers` is how many ask, each a process of its
    own: the first from the prober's host, the others from this machine, which no cut ever cuts off.
    """

    name: str
    title: str
    description: str
    modes: tuple[str, ...]
    cluster: Mapping[str, Mapping[str, Any]]
    topics: tuple[Topic, ...]
    witnesses: tuple[WitnessPlan, ...]
    steady_state: tuple[str, ...]
    method: tuple[Step, ...]
    rollbacks: tuple[Step, ...]
    expect: tuple[Expectation, ...]
    coverage: float
    probers: int = 1

    def spec(self, mode: str) -> LabSpec:
        """The cluster that it wants in a mode. Raises UsageError for a mode that it does not run in, or that the lab does not know."""
        if mode not in self.modes:
            raise UsageError(f"{self.name} does not run in the mode {mode}; it runs in {', '.join(self.modes)}")
        settings = dict(self.cluster[mode])
        if mode != KRAFT:
            settings["mode"] = mode
        try:
            return LabSpec(**settings)
        except TypeError as error:
            raise UsageError(f"{self.name}: the lab has no {mode} mode: {error}") from error


def folder() -> Path:
    """Where the drills are."""
    return resource("conf", "drills")


def names() -> list[str]:
    """The names of all drills."""
    return sorted(path.stem for path in folder().glob("*.yml"))


def load(name: str) -> Drill:
    """The drill of that name. Raises UsageError where there is none, or where its file is wrong."""
    path = folder() / f"{name}.yml"
    if not path.is_file():
        raise UsageError(f"there is no drill {name!r}; known are {', '.join(names())}")
    return read_drill(path)


def read_drill(path: Path) -> Drill:
    """The drill of a file."""
    found = marked.read(path).fields(TOP, needed=("title", "description", "steady-state-hypothesis", "method", "expect"))
    modes = found.get("modes", _modes, (KRAFT,))
    topics = found.get("topics", _topics, ())
    roles: set[str] = set()
    method = tuple(_step(value, roles) for value in found["method"].items())
    if not any(step.action for step in method):
        raise found["method"].error("no step of the method does anything")
    rollbacks = found.get("rollbacks", lambda value: tuple(_step(one, roles) for one in value.items()), ())
    labels = {step.action for step in method + rollbacks if step.action} | roles
    return Drill(
        name=path.stem,
        title=found["title"].text(),
        description=found["description"].text(),
        modes=modes,
        cluster={mode: found.get("cluster", _settings_of(mode), {}) for mode in modes},
        topics=topics,
        witnesses=found.get("witnesses", lambda value: _witnesses(value, topics), ()),
        steady_state=tuple(_condition(one, set()) for one in found["steady-state-hypothesis"].items()),
        method=method,
        rollbacks=rollbacks,
        expect=tuple(read_expectation(one, roles, labels) for one in found["expect"].items()),
        coverage=found.get("coverage", lambda value: float(value.number(most=1)), 0.8),
        probers=found.get("probers", lambda value: value.whole(1, PROBERS_MAX), 1),
    )


def _modes(value: Value) -> tuple[str, ...]:
    modes = tuple(dict.fromkeys(one.one_of(MODES) for one in value.items()))
    if not modes:
        raise value.error(f"names no mode; one of {', '.join(MODES)}, or both")
    return modes


# --- the cluster ------------------------------------------------------------------------------------------------------


def _settings_of(mode: str) -> Callable[[Value], dict[str, Any]]:
    """Reads LabSpec's own fields; those under the name of a mode hold in that mode only, and win."""

    def read(value: Value) -> dict[str, Any]:
        known = {one.name for one in fields(LabSpec)} - NOT_SET_BY_A_DRILL
        found = value.fields(known | set(MODES))
        parts = [found, *([found[mode].fields(known)] if mode in found else [])]
        return {name: _setting(name, one) for part in parts for name, one in part if name not in MODES}

    return read


def _setting(name: str, value: Value) -> Any:
    return SETTINGS[name](value) if name in SETTINGS else value.whole(1)


def _node_texts(value: Value) -> dict[int, dict[str, str]]:
    return {Value(found.key(node).node, value.file).whole(1): _texts(one) for found in [value.fields()] for node, one in found}


def _zones(value: Value) -> dict[str, tuple[int, ...]]:
    return {zone: tuple(node.whole(1) for node in one.items()) for zone, one in value.fields()}


def _texts(value: Value) -> dict[str, str]:
    return {name: one.text() for name, one in value.fields()}


SETTINGS: dict[str, Callable[[Value], Any]] = {
    "properties": _texts,
    "node_properties": _node_texts,
    "zookeeper_properties": _texts,
    "zones": _zones,
    "network": Value.flag,
    "zone_delay_ms": Value.number,
    "controllers": Value.whole,
}
"""How the fields of LabSpec are read that are not a whole number of one or more."""


def _topics(value: Value) -> tuple[Topic, ...]:
    return tuple(_topic(name, one) for name, one in value.fields())


def _topic(name: str, value: Value) -> Topic:
    found = value.fields(("partitions", "replicas", "assignment", "settings"))
    if "assignment" in found and ("partitions" in found or "replicas" in found):
        raise found.key("assignment").error("assignment says who has which partition: partitions and replicas follow from it")
    assignment = found.get("assignment", _assignment, None)
    return Topic(
        name,
        len(assignment) if assignment else found.get("partitions", lambda one: one.whole(1), PARTITIONS),
        len(assignment[0]) if assignment else found.get("replicas", lambda one: one.whole(1), REPLICAS),
        assignment,
        found.get("settings", _texts, {}),
    )


def _assignment(value: Value) -> tuple[tuple[int, ...], ...]:
    rows = tuple(tuple(node.whole(1) for node in row.items()) for row in value.items())
    if not rows or any(not row or len(set(row)) < len(row) for row in rows):
        raise value.error("an assignment is a list of partitions, each a list of different brokers, the preferred leader first")
    return rows


def _witnesses(value: Value, topics: tuple[Topic, ...]) -> tuple[WitnessPlan, ...]:
    found: list[WitnessPlan] = []
    for one in value.items():
        each = one.fields(("topic", "acks", "rate", "reads"), needed=("topic", "acks"))
        each["topic"].one_of(topic.name for topic in topics)
        acks = ACKS[each["acks"].one_of(ACKS)]
        reads = each.get("reads", Value.flag, acks == ACKS["all"])
        plan = WitnessPlan(each["topic"].text(), acks, each.get("rate", lambda r: r.whole(1), RATE), reads)
        if any(plan.topic == other.topic for other in found):
            raise one.error(f"{plan.topic} has a witness already: one topic a witness, so that what is gone is his")
        found.append(plan)
    return tuple(found)


# --- steps ------------------------------------------------------------------------------------------------------------


def _step(value: Value, roles: set[str]) -> Step:
    found = value.fields(("action", "target", "as", "with", "until", "within"))
    if "action" not in found and "until" not in found:
        raise value.error("a step has an action, conditions that it waits for (until), or both")
    action = found.get("action", lambda one: one.one_of(faults.ACTIONS), None)
    for name in ("target", "as", "with"):
        if name in found and action is None:
            raise found.key(name).error(f"{name!r} says more of an action, and there is none")
    target = found.get("target", Value.text, None)
    arguments: dict[str, Any] = {}
    if action is not None:
        wanted = faults.ACTIONS[action]
        if wanted.has_target != (target is not None):
            raise value.error(f"{action} {'needs a target' if wanted.has_target else 'has no target'}")
        if target is not None and (problem := targets.problem(target, roles)):
            raise found["target"].error(problem)
        arguments = _arguments(value, found, wanted)
    role = found.get("as", Value.text, None)
    if role:
        roles.add(role)
    until = found.get("until", lambda one: tuple(_condition(each, roles) for each in one.items()), ())
    return Step(
        value.node.start_mark.line + 1,
        action,
        target,
        role,
        arguments,
        until,
        found.get("within", lambda one: one.number(0.1), WITHIN_SECONDS),
    )


def _arguments(step: Value, found: Fields, wanted: Action) -> dict[str, Any]:
    if "with" not in found:
        if wanted.needed:
            raise step.error(f"needs with: {{{', '.join(wanted.needed)}}}")
        return {}
    given = found["with"].fields((*wanted.needed, *wanted.optional), needed=wanted.needed)
    return {name: one.plain() for name, one in given}


def _condition(value: Value, roles: set[str]) -> str:
    text = value.text()
    problem = conditions.problem(text, roles)
    if problem:
        raise value.error(problem)
    return text
