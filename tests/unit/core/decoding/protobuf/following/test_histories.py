"""Generated versions of a message: each record is a row of the table that follows all of them, as Google's
library reads its bytes with the newest one."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.core.decoding.protobuf.following.merging import merge
from sluice.core.decoding.protobuf.following.written import row_of_text, row_text
from sluice.core.decoding.protobuf.reader import MessageReader
from sluice.core.decoding.protobuf.types import Type, is_map, type_of
from tests.support.protobuf import messages
from tests.support.protobuf_rows import expected
from tests.support.protobuf_versions import Histories
from tests.unit.core.decoding.protobuf.test_both_ways import same

NAME = "h.M"


def in_columns(found: dict[str, Any] | None, table: Type, writer: Descriptor, reader: Descriptor) -> Any:
    """A row that was read as a message of ``reader``, in the columns of ``table``, of those fields that the
    reader has: null for those that the writer lacks, and what stands for one that it cannot leave out."""
    if found is None:
        return None
    row = {}
    for column in table.fields:
        own, source = reader.fields_by_number.get(column.number), writer.fields_by_number.get(column.number)
        if own is None:
            continue
        value = None if source is None else found[own.name]
        if source is not None and own.message_type is not None:
            value = _inner(value, column.type, source, own)
        elif source is not None and value is None and not source.has_presence:
            value = source.default_value if source.enum_type is None else source.enum_type.values[0].name
        row[column.name] = value
    return row


def _inner(value: Any, table: Type, source: FieldDescriptor, own: FieldDescriptor) -> Any:
    if is_map(own):
        of_source, of_own = (one.message_type.fields_by_number[2].message_type for one in (source, own))
        if of_own is None:
            return value
        return [(key, in_columns(one, table.inner, of_source, of_own)) for key, one in value]
    if own.is_repeated:
        return [in_columns(one, table.inner, source.message_type, own.message_type) for one in value]
    return in_columns(value, table, source.message_type, own.message_type)


def without(row: Any, expected: Any) -> Any:
    """Without the columns that are not expected."""
    if isinstance(expected, dict) and isinstance(row, dict):
        return {name: without(row[name], value) for name, value in expected.items()}
    if isinstance(expected, list) and isinstance(row, list):
        return [without(*both) for both in zip(row, expected, strict=True)]
    if isinstance(expected, tuple) and isinstance(row, tuple):
        return tuple(without(*both) for both in zip(row, expected, strict=True))
    return row


@pytest.mark.parametrize("examples", [60, pytest.param(2_000, marks=pytest.mark.exhaustive)])
def test_every_version_is_read_as_googles_library_reads_the_newest(examples: int) -> None:
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def run(data: st.DataObject) -> None:
        check(data)

    run()


def check(data: st.DataObject) -> None:
    random = data.draw(st.randoms(use_true_random=False))
    schemas = [one.schema().message(NAME) for one in Histories(random).versions(4)]
    table = type_of(schemas[0], by_number=True)
    # They come in any order, and those from before come again.
    for writer in data.draw(st.permutations(schemas)):
        found = merge(table, writer)
        assert not found.conflicts
        table = found.schema
    assert all(not merge(table, writer).is_new for writer in schemas)
    # What is kept of it says the same.
    assert row_of_text(row_text(NAME, table)) == (NAME, table)
    newest = schemas[-1]
    for writer in schemas:
        sent = data.draw(messages(writer))
        body = sent.SerializeToString(deterministic=True)
        reader = MessageReader(writer, table, "rest")
        row = reader.value(body)
        assert same(row, reader.reference(body))
        assert row.pop("rest") is None
        for one in (writer, newest):
            read = expected(GetMessageClass(one).FromString(body))
            wanted = in_columns(read, table, writer, one)
            assert same(_exact(without(row, wanted)), _exact(wanted)), (row, wanted)


def _exact(found: Any) -> Any:
    """Whole numbers of decimals, and floats of their columns, as numbers."""
    if isinstance(found, dict):
        return {name: _exact(one) for name, one in found.items()}
    if isinstance(found, list | tuple):
        return [_exact(one) for one in found]
    return int(found) if type(found).__name__ == "Decimal" else found
