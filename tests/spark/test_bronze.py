"""The stream's native parser and `domain.landing.decode` are one definition of a good line."""

import json
from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession

from pipelines import bronze
from pipelines.domain.landing import LENGTH_MAX, BadLine, decode, from_row
from pipelines.lakehouse import Lakehouse
from tests.spark.histories import kill_of_broker_2

pytestmark = pytest.mark.spark

EXTREMES = (2**53, 2**63 - 1, -(2**63), 2**63, 10**30, 1.5, "1", True)
LANDED_AT = datetime(2026, 11, 21, tzinfo=UTC)


def parse(spark: SparkSession, lakehouse: Lakehouse, lines: list[str]) -> dict[str, dict[str, object]]:
    schema = lakehouse.schema(bronze.OBSERVATIONS)
    frame = spark.createDataFrame([(line, "file.jsonl", LANDED_AT) for line in lines], "value STRING, file STRING, landed_at TIMESTAMP")
    return {row["value"]: row.asDict(recursive=True) for row in bronze.parsed(frame, schema).collect()}


def variants() -> list[str]:
    """Good lines of every kind in a history, and each of them spoilt in the ways in which collectors go wrong."""
    history = kill_of_broker_2()
    kinds = {one.record: line for one, line in zip(history.observations, history.lines(), strict=True)}
    lines = list(kinds.values())
    for line in list(kinds.values()):
        body = json.loads(line)
        lines.extend(json.dumps({key: value for key, value in body.items() if key != name}) for name in body)
        lines.append(json.dumps(body | {"format": 2}))
        lines.append(json.dumps(body | {"record": "rumour"}))
        lines.append(json.dumps(body | {"ended_at_us": body["started_at_us"] - 1}))
        lines.append(json.dumps(body | {"seq": "seven"}))
        lines.append(json.dumps(body | {"unknown_field": 1}))
        if "count" in body:
            lines.append(json.dumps(body | {"count": body["count"] + 1}))
            lines.append(json.dumps(body | {"count": 0}))
            lines.append(json.dumps(body | {"outcome": "FINE"}))
            lines.append(json.dumps(body | {"kind": "dream"}))
        lines.extend(json.dumps(body | {name: number}) for name in body if type(body[name]) is int for number in EXTREMES)
        if "first_sequence" in body:
            lines.append(json.dumps(body | {"first_sequence": -(2**63), "last_sequence": 2**63 - 1}))
        if "runs" in body:
            lines.append(json.dumps(body | {"runs": [body["runs"][0] | {"last_position": 2**60}]}))
    return [*lines, "", "garbage", "[]", "{}", "null", "7", '{"format":1', '{"format":1,"record":"probes"}']


def test_the_native_parser_and_decode_agree_on_which_lines_are_good(spark: SparkSession, lakehouse: Lakehouse) -> None:
    lines = list(dict.fromkeys(variants()))
    rows = parse(spark, lakehouse, lines)
    disagreed = []
    for line in lines:
        try:
            observation = decode(line)
        except BadLine as reason:
            if rows[line]["reason"] is None:
                disagreed.append((line, f"native takes it, decode says {reason}"))
        else:
            if rows[line]["reason"] is not None:
                disagreed.append((line, f"decode takes it, native says {rows[line]['reason']}"))
            elif from_row(rows[line]) != observation:
                disagreed.append((line, "both take it and read different things"))
    assert disagreed == []


def test_a_line_without_end_is_quarantined_in_a_few_words_and_no_reason_quotes_all_of_it(
    spark: SparkSession, lakehouse: Lakehouse
) -> None:
    endless = '{"format":1,"record":"' + "x" * LENGTH_MAX
    wordy = json.dumps({"format": 1, "record": "y" * 1_000_000})
    rows = parse(spark, lakehouse, [endless, wordy])
    cut = rows[endless[: bronze.LINE_LIMIT]]
    assert cut["reason"] == f"it has {len(endless)} characters, expected at most {LENGTH_MAX}"
    assert str(rows[wordy]["reason"]).startswith("record is yyy")
    assert len(str(rows[wordy]["reason"])) < bronze.LINE_LIMIT
    with pytest.raises(BadLine, match="expected at most"):
        decode(endless)


def test_every_bad_line_has_a_reason_that_says_what_is_wrong(spark: SparkSession, lakehouse: Lakehouse) -> None:
    line = '{"format":1,"record":"blind","system":"kafka"}'
    reason = parse(spark, lakehouse, [line])[line]["reason"]
    assert reason is not None
    assert "blind misses cluster_id" in str(reason)
