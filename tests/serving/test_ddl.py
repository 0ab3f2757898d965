import pyarrow as pa
import pytest

from pipelines import ddl
from pipelines.errors import LakehouseError


@pytest.mark.parametrize("table", ddl.table_names())
def test_every_table_has_columns_with_a_meaning_and_an_arrow_type(table):
    columns = ddl.columns(table)
    assert columns
    assert all(one.comment for one in columns)
    assert ddl.arrow_schema(table).names == [one.name for one in columns]


def test_a_column_keeps_its_type_nullability_and_meaning():
    first = ddl.columns("gold.outages")[0]
    assert (first.name, first.type, first.is_nullable) == ("outage_id", "STRING", False)
    assert first.comment.startswith("identity of the outage")


def test_a_doubled_quote_in_a_comment_is_one_quote():
    comments = {one.name: one.comment for one in ddl.columns("bronze.observations")}
    assert comments["code"].startswith("the error's name")


def test_nested_types_become_arrow_types():
    schema = ddl.arrow_schema("bronze.observations")
    assert schema.field("values").type == pa.map_(pa.string(), pa.float64())
    assert schema.field("isr").type == pa.list_(pa.string())
    assert schema.field("runs").type.value_type.field("first_position").type == pa.int64()


def test_a_table_without_a_ddl_is_named():
    with pytest.raises(LakehouseError, match=r"gold\.nothing.*known are"):
        ddl.columns("gold.nothing")
