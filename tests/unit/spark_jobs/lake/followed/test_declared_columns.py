"""What of a declaration a table's columns can become, and the document that a table has lost the name of."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql.types import DataType, StructType

from spark_jobs.common.lake.followed import declared_columns, followed_schema
from spark_jobs.common.lake.followed.declared_columns import covers, newest_document
from tests.support.memory_s3 import MemoryS3

TABLE = "s3://w/lake/raw/x"
NOW = datetime(2026, 6, 1, tzinfo=UTC)


def of(text: str) -> DataType:
    """In the JSON of Spark's types, without what is the same everywhere."""
    if text.startswith("{"):
        fields = [pair.split(":") for pair in text[1:-1].split(",")]
        named = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in fields]
        return StructType.fromJson({"type": "struct", "fields": named})
    outer, _, inner = text.partition(" of ")
    made = {"type": outer, "elementType": inner, "containsNull": True}
    if outer == "map":
        made = {"type": "map", "keyType": "string", "valueType": inner, "valueContainsNull": True}
    record = {"name": "x", "type": made if inner else text, "nullable": True, "metadata": {}}
    return StructType.fromJson({"type": "struct", "fields": [record]})["x"].dataType


WIDER = (
    ("long", "integer"),
    ("double", "float"),
    ("decimal(20,2)", "decimal(9,2)"),
    ("{a:long,b:string}", "{a:integer}"),
    ("array of double", "array of float"),
    ("map of long", "map of integer"),
)
OTHERS = (
    ("string", "integer"),
    ("double", "integer"),
    ("float", "integer"),
    ("decimal(20,3)", "decimal(9,2)"),
    ("{a:long}", "{a:integer,b:string}"),
    ("{A:long}", "{a:long}"),
    ("array of long", "long"),
)


@pytest.mark.parametrize(("wide", "narrow"), WIDER)
def test_a_column_becomes_wider_and_never_narrower(wide: str, narrow: str) -> None:
    assert covers(of(wide), of(narrow))
    assert covers(of(wide), of(wide))
    assert not covers(of(narrow), of(wide))


@pytest.mark.parametrize(("wide", "narrow"), OTHERS)
def test_a_column_becomes_no_other_type(wide: str, narrow: str) -> None:
    assert not covers(of(wide), of(narrow))


def test_the_newest_document_with_the_tables_columns_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    s3 = MemoryS3()
    texts = {followed_schema.keep(s3.as_client(), TABLE, text): text for text in "abc"}
    for age, digest in enumerate(texts):
        s3.modified["w", f"lake/raw/x/schemas/{digest}.avsc"] = NOW + timedelta(days=age)
    followed_schema.keep(s3.as_client(), TABLE, "c", "json")

    def found(wanted: str) -> str:
        return newest_document(s3.as_client(), TABLE, "avsc", lambda digest: texts[digest] in wanted)

    assert texts[found("ab")] == "b"
    assert texts[found("abc")] == "c"
    assert found("d") == ""
    monkeypatch.setattr(declared_columns, "MAX_DOCUMENTS", 2)
    assert found("a") == "", "all of a long history are not read"
