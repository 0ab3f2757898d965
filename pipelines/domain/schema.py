"""What does the landing format look like to a program that does not know us? A JSON Schema, made from the records themselves.

The rule: the dataclasses of `observations` are the only source. `python -m pipelines.domain.schema` prints the schema that is kept as
docs/landing-format.schema.json, `python -m pipelines.domain.schema RECORD` the table of a record's fields for the document beside it;
a test holds both against what is kept.

JSON Schema cannot say that an instant lies before another, or that a run has as many sequences as probes: a line that `landing.decode`
takes always fits the schema, and one that fits the schema is refused by `decode` for such an order only.

Example: `json_schema()["$defs"]["blind"]["properties"]["cause"]["description"]` is what the dataclass says of the field.
"""

import dataclasses
import json
import sys
import types
import typing
from typing import Any

from pipelines.domain.landing import VOCABULARY, WHOLE
from pipelines.domain.observations import ENVELOPE_FIELDS, FORMAT, RECORDS, FoundRun

SHARED = frozenset(ENVELOPE_FIELDS)
"""The envelope's fields, which every record has."""

TYPES: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer", "minimum": WHOLE.start, "maximum": WHOLE.stop - 1},
    bool: {"type": "boolean"},
    tuple[str, ...]: {"type": "array", "items": {"type": "string"}},
    dict[str, float]: {"type": "object", "additionalProperties": {"type": "number"}},
    tuple[FoundRun, ...]: {"type": "array", "items": {"$ref": "#/$defs/found_run"}},
}
WORDS = {str: "text", int: "whole number", bool: "true or false", tuple[str, ...]: "list of texts"}
WORDS |= {dict[str, float]: "object of numbers", tuple[FoundRun, ...]: "list of runs"}


def json_schema() -> dict[str, Any]:
    """The schema of one line."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line of Lastack's landing",
        "description": "One observation of a message broker. See landing-format.md.",
        "oneOf": [{"$ref": f"#/$defs/{record}"} for record in RECORDS],
        "$defs": {record: _record(kind) for record, kind in RECORDS.items()} | {"found_run": _found_run()},
    }


def field_table(record: str) -> str:
    """The fields that a record has beside the envelope, as a table in Markdown."""
    kind = RECORDS[record]
    hints = typing.get_type_hints(kind)
    rows = ["| field | | |", "|---|---|---|"]
    for one in dataclasses.fields(kind):
        if one.name not in SHARED:
            hint, is_required = _plain(hints[one.name]), one.default is dataclasses.MISSING
            rows.append(f"| `{one.name}` | {WORDS[hint]}{'' if is_required else ', may be absent'} | {one.metadata['says']} |")
    return "\n".join(rows)


def _record(kind: type[Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    fields = dataclasses.fields(kind)
    properties: dict[str, Any] = {"format": {"const": FORMAT}, "record": {"const": kind.record}}
    for one in fields:
        properties[one.name] = _property(one, hints[one.name])
    return {
        "type": "object",
        "description": (kind.__doc__ or "").strip(),
        "required": ["format", "record", *(one.name for one in fields if one.default is dataclasses.MISSING)],
        "properties": properties,
    }


def _property(one: dataclasses.Field[Any], hint: Any) -> dict[str, Any]:
    schema = dict(TYPES[_plain(hint)])
    if one.name in VOCABULARY:
        schema["enum"] = sorted(VOCABULARY[one.name])
    if one.name == "count":
        schema["minimum"] = 1
    schema["description"] = one.metadata["says"]
    if one.default is not dataclasses.MISSING:
        # JSON's null says the same as a field that is left out.
        schema["type"] = [schema["type"], "null"]
    return schema


def _found_run() -> dict[str, Any]:
    hints = typing.get_type_hints(FoundRun)
    return {
        "type": "object",
        "description": (FoundRun.__doc__ or "").strip(),
        "required": list(hints),
        "properties": {name: TYPES[hint] for name, hint in hints.items()},
        "additionalProperties": False,
    }


def _plain(hint: Any) -> Any:
    if isinstance(hint, types.UnionType):
        return next(arm for arm in typing.get_args(hint) if arm is not types.NoneType)
    return hint


if __name__ == "__main__":
    records = sys.argv[1:]
    sys.stdout.write("\n\n".join(map(field_table, records)) if records else json.dumps(json_schema(), indent=2))
    sys.stdout.write("\n")
