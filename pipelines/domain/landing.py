"""How is an observation written as a line of JSON, and when is a line not one?

The rule: one observation is one line, a flat JSON object with `format`, `record` and the record's fields under their own names;
absent fields are left out. `decode` is the one definition of a good line; the stream's native parser is tested against it.

Example: `encode(Blind(..., cause="stall", started_at_us=5, ended_at_us=9))` gives
`{"format":1,"record":"blind",...,"cause":"stall","started_at_us":5,"ended_at_us":9}`.
"""

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Callable
from typing import Any

from pipelines.domain.observations import FORMAT, RECORDS, FoundRun, Kind, Lane, Observation, Outcome

WHOLE = range(-(2**53) + 1, 2**53)
"""Whole numbers that every JSON reader takes exactly (RFC 8259), and that no sum or difference of a few can carry out of 64 bits. As
microseconds they reach to the year 2255."""

LENGTH_MAX = 8 * 1024 * 1024
"""Characters of a line; far more than any record needs."""

VOCABULARY: dict[str, frozenset[str]] = {
    "outcome": frozenset(Outcome),
    "kind": frozenset(Kind),
    "lane": frozenset(Lane),
}
"""Fields whose words are fixed, for every system."""


class BadLine(ValueError):
    """A line that is not an observation; the message is the reason that the quarantine keeps."""


def encode(observation: Observation) -> str:
    """The line of an observation, without its line feed."""
    body: dict[str, Any] = {"format": FORMAT, "record": observation.record}
    for name in _fields(observation.record):
        value = getattr(observation, name)
        if value is not None:
            body[name] = [dataclasses.asdict(run) for run in value] if name == "runs" else value
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False)


def decode(line: str) -> Observation:
    """The observation of a line. Raises BadLine with the reason when the line is not one."""
    if len(line) > LENGTH_MAX:
        raise BadLine(f"it has {len(line)} characters, expected at most {LENGTH_MAX}")
    try:
        body = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadLine(f"not JSON: {error}") from error
    if not isinstance(body, dict):
        raise BadLine(f"not a JSON object but {type(body).__name__}")
    if type(body.get("format")) is not int or body["format"] != FORMAT:
        raise BadLine(f"format is {body.get('format')!r}, this reader knows {FORMAT}")
    record = body.get("record")
    kind = RECORDS.get(record) if isinstance(record, str) else None
    if kind is None:
        raise BadLine(f"record is {record!r}, expected one of {', '.join(RECORDS)}")
    values = {name: _value(kind, name, check, _told(check, body.get(name))) for name, check in _fields(kind.record).items()}
    observation: Observation = kind(**{name: value for name, value in values.items() if value is not None})
    _check_order(observation)
    return observation


def _told(check: "_Field", value: Any) -> Any:
    """What a field says: an empty text where there may be none is a way of saying nothing."""
    return None if value == "" and not check.is_required else value


def _value(kind: type[Any], name: str, check: "_Field", value: Any) -> Any:
    if value is None:
        if check.is_required:
            raise BadLine(f"{kind.record}.{name} is missing")
        return None
    if not check.accepts(value):
        raise BadLine(f"{kind.record}.{name} is {value!r}, expected {check.expects}")
    if name in VOCABULARY and value not in VOCABULARY[name]:
        raise BadLine(f"{kind.record}.{name} is {value!r}, expected one of {', '.join(sorted(VOCABULARY[name]))}")
    if name == "runs":
        return tuple(FoundRun(**run) for run in value)
    return tuple(value) if isinstance(value, list) else value


def _check_order(observation: Observation) -> None:
    if observation.ended_at_us < observation.started_at_us:
        raise BadLine(f"{observation.record} ends at {observation.ended_at_us}, before it starts at {observation.started_at_us}")
    count = getattr(observation, "count", 1)
    if count < 1:
        raise BadLine(f"{observation.record}.count is {count}, expected at least 1")
    first, last = getattr(observation, "first_sequence", None), getattr(observation, "last_sequence", None)
    if first is not None and last is not None and last - first + 1 != count:
        raise BadLine(f"{observation.record} has sequences {first} to {last}, expected {count} of them")


@dataclasses.dataclass(frozen=True, slots=True)
class _Field:
    is_required: bool
    expects: str
    accepts: Callable[[Any], bool]


@functools.cache
def _fields(record: str) -> dict[str, _Field]:
    """Name to check, in order. What JSON cannot say (a boolean that is an integer) is told apart here."""
    kind = RECORDS[record]
    hints = typing.get_type_hints(kind)
    fields = {}
    for one in dataclasses.fields(kind):
        hint = hints[one.name]
        if isinstance(hint, types.UnionType):
            hint = next(arm for arm in typing.get_args(hint) if arm is not types.NoneType)
        expects, accepts = CHECKS[hint]
        fields[one.name] = _Field(one.default is dataclasses.MISSING, expects, accepts)
    return fields


def _is_integer(value: Any) -> bool:
    return type(value) is int and value in WHOLE


def _is_run(value: Any) -> bool:
    names = {one.name for one in dataclasses.fields(FoundRun)}
    return (
        isinstance(value, dict)
        and set(value) == names
        and all(isinstance(value[name], str) if name == "boot_id" else _is_integer(value[name]) for name in names)
    )


CHECKS: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    str: ("text", lambda value: isinstance(value, str)),
    int: ("a whole number of 53 bits", _is_integer),
    bool: ("true or false", lambda value: isinstance(value, bool)),
    tuple[str, ...]: (
        "a list of texts",
        lambda value: isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value),
    ),
    dict[str, float]: (
        "an object of numbers",
        lambda value: isinstance(value, dict) and all(type(one) in (int, float) for one in value.values()),
    ),
    tuple[FoundRun, ...]: (
        "a list of runs",
        lambda value: isinstance(value, (list, tuple)) and all(_is_run(one) or isinstance(one, FoundRun) for one in value),
    ),
}
"""Type of a field to its name in messages and to its check: the only types that a record may have."""


def from_row(row: dict[str, Any]) -> Observation:
    """The observation of a row of bronze: the record's own columns, NULL where absent."""
    kind = RECORDS[row["record"]]
    values: dict[str, Any] = {}
    for name, check in _fields(kind.record).items():
        value = _told(check, row[name])
        if value is None:
            continue
        if name == "runs":
            value = tuple(FoundRun(**run) for run in value)
        elif name == "values":
            value = dict(value)
        elif isinstance(value, list):
            value = tuple(value)
        values[name] = value
    observation: Observation = kind(**values)
    return observation
