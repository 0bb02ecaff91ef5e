"""What a table of Protobuf is read with: what it follows, and what its declaration has beyond that."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.config import streams
from sluice.config.folders import VARIABLE
from sluice.config.stream import StreamSpec
from sluice.core.decoding.protobuf.following.written import row_text
from spark_jobs.common.consumer.followed import ending_of, table_message
from spark_jobs.common.lake.tables import IncompatibleSchema
from tests.support.declared import Declaration
from tests.support.raising import raising

HEAD = 'syntax = "proto3"; package shop; '
RECORDS = 'format = "protobuf"\nregistry = true\nnew_fields = "column"'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))


def stream(root: Path, text: str) -> StreamSpec:
    Declaration("orders", RECORDS, {"schema.proto": HEAD + text}).write(root, "orders")
    return streams.load("orders")


def test_what_it_follows_and_what_the_declaration_has_beyond(tmp_path: Path) -> None:
    spec = stream(tmp_path, "message Order { int32 id = 1; string note = 2; }")
    assert ending_of(spec) == "json"
    assert [one.name for one in table_message(spec, "").type.fields] == ["id", "note"]
    followed = table_message(stream(tmp_path, "message Order { int64 id = 1; bool new = 9; }"), "")
    text = row_text(followed.name, followed.type)
    # The declaration is narrower, has another name, and a column more.
    spec = stream(tmp_path, "message Order { int32 key = 1; bool new = 9; bytes raw = 4; }")
    found = table_message(spec, text).columns()
    assert {one.name: str(one.type) for one in found} == {"id": "int64", "new": "bool", "raw": "binary"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("message Order { string id = 1; }", "id: the table has int64, the schema string"),
        ("message Other { int64 id = 1; }", "its message is shop.Other, and the table's is shop.Order"),
    ],
)
def test_a_declaration_that_contradicts_it_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    followed = table_message(stream(tmp_path, "message Order { int64 id = 1; }"), "")
    spec = stream(tmp_path, text)
    with raising(IncompatibleSchema, "raw.orders follows", reason, "Fix: correct schema.proto"):
        table_message(spec, row_text(followed.name, followed.type))
