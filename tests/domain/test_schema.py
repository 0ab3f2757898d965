"""The published schema, the document beside it and the decoder say the same of every line."""

import dataclasses
import json
import re
import typing
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.domain.landing import VOCABULARY, WHOLE, BadLine, decode, encode
from pipelines.domain.observations import ENVELOPE_FIELDS, RECORDS, ControlEvent, FoundRun
from pipelines.domain.schema import field_table, json_schema

DOCS = Path(__file__).parents[2] / "docs"
ONLY_DECODE = re.compile(r"ends at|has sequences")
"""Reasons that a schema cannot have: the order of instants, the number of sequences."""


def validator() -> jsonschema.Draft202012Validator:
    """A validator that tells 5.0 from 5, as the decoder does: a whole number is written without a fraction."""
    kind = jsonschema.Draft202012Validator
    checker = kind.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
    return jsonschema.validators.extend(kind, type_checker=checker)(json_schema())


VALIDATOR = validator()
NUMBER = st.integers(WHOLE.start, WHOLE.stop - 1)
RUN = st.builds(
    FoundRun,
    boot_id=st.text(max_size=3),
    first_sequence=NUMBER,
    last_sequence=NUMBER,
    first_position=NUMBER,
    last_position=NUMBER,
)
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=8),
    int: NUMBER,
    bool: st.booleans(),
    tuple[str, ...]: st.lists(st.text(max_size=3), max_size=3).map(tuple),
    dict[str, float]: st.dictionaries(st.text(max_size=3), st.floats(allow_nan=False, allow_infinity=False), max_size=3),
    tuple[FoundRun, ...]: st.lists(RUN, max_size=2).map(tuple),
}


@st.composite
def observations(draw: st.DrawFn) -> Any:
    """Any record with any values that its types and the order of its instants and sequences allow."""
    kind = draw(st.sampled_from(list(RECORDS.values())))
    values: dict[str, Any] = {}
    for one in dataclasses.fields(kind):
        hint = typing.get_type_hints(kind)[one.name]
        arms = [arm for arm in typing.get_args(hint) if arm is not type(None)] if type(None) in typing.get_args(hint) else [hint]
        strategy = VALUES[arms[0]]
        if one.name in VOCABULARY:
            strategy = st.sampled_from(sorted(VOCABULARY[one.name]))
        values[one.name] = draw(strategy if arms == [hint] else st.none() | strategy.filter(lambda value: value != ""))
    started, ended = sorted((values["started_at_us"], values["ended_at_us"]))
    values |= {"started_at_us": started, "ended_at_us": ended}
    if "count" in values:
        values["count"] = draw(st.integers(1, 1000))
    if "first_sequence" in values:
        values["first_sequence"] = draw(st.integers(0, 1 << 40))
        values["last_sequence"] = values["first_sequence"] + values["count"] - 1
    return kind(**values)


@given(observations())
def test_every_record_comes_back_from_its_line_and_fits_the_schema(observation: Any) -> None:
    line = encode(observation)

    assert "\n" not in line
    assert decode(line) == observation
    VALIDATOR.validate(json.loads(line))


WRONG = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 70), 1 << 70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=4),
    st.lists(st.integers() | st.text(max_size=2), max_size=2),
    st.dictionaries(st.text(max_size=2), st.integers() | st.text(max_size=2), max_size=2),
)


@given(observations(), st.data())
def test_schema_and_decoder_agree_on_lines_that_somebody_spoilt(observation: Any, data: st.DataObject) -> None:
    body = json.loads(encode(observation))
    for _ in range(data.draw(st.integers(1, 2))):
        name = data.draw(st.sampled_from([*body, "unheard_of"]))
        if data.draw(st.booleans()):
            body.pop(name, None)
        else:
            body[name] = data.draw(WRONG)

    try:
        decode(json.dumps(body))
        reason = None
    except BadLine as error:
        reason = str(error)

    if VALIDATOR.is_valid(body):
        assert reason is None or ONLY_DECODE.search(reason)
    else:
        assert reason is not None


@pytest.mark.parametrize(
    "line", ["", "nonsense", "[]", "5", '"text"', "{}", '{"format":2,"record":"blind"}', '{"format":1,"record":"x"}']
)
def test_what_is_no_line_at_all_is_refused_with_a_reason(line: str) -> None:
    with pytest.raises(BadLine, match=r"\w"):
        decode(line)


def test_the_schema_that_is_kept_is_the_one_that_is_made() -> None:
    kept = json.loads((DOCS / "landing-format.schema.json").read_text())

    assert kept == json_schema(), "run: python -m pipelines.domain.schema > docs/landing-format.schema.json"
    jsonschema.Draft202012Validator.check_schema(kept)


@pytest.mark.parametrize("record", RECORDS)
def test_the_document_says_of_each_record_what_the_code_says(record: str) -> None:
    text = (DOCS / "landing-format.md").read_text()

    assert field_table(record) in text, f"run: python -m pipelines.domain.schema {record}"


def test_the_document_names_every_field_of_the_envelope() -> None:
    text = (DOCS / "landing-format.md").read_text()

    assert [name for name in ENVELOPE_FIELDS if f"| `{name}` |" not in text] == []


def test_the_document_names_every_event_of_the_control_plane() -> None:
    text = (DOCS / "landing-format.md").read_text()

    assert [event for event in ControlEvent if f"`{event}`" not in text] == []


def test_every_example_in_the_document_is_a_line_and_each_record_has_one() -> None:
    text = (DOCS / "landing-format.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith('{"format":')]

    examples = [decode(line) for line in lines]

    assert {one.record for one in examples} == set(RECORDS)
    for line in lines:
        VALIDATOR.validate(json.loads(line))
