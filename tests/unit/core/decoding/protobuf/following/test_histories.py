"""Generated versions of a message: each record is a row of the table that follows all of them, as Google's
library reads its bytes with the newest one."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.core.decoding.protobuf.following.merging import merge
from sluice.core.decoding.protobuf.following.written import row_of_text, row_text
from sluice.core.decoding.protobuf.reader import MessageReader
from sluice.core.decoding.protobuf.types import type_of
from tests.support.protobuf import messages
from tests.support.protobuf_rows import expected
from tests.support.protobuf_versions import Histories, in_columns, without
from tests.unit.core.decoding.protobuf.test_both_ways import same

NAME = "h.M"


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
