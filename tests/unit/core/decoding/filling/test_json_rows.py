"""Members that were kept of JSON objects, filled into columns: as the decoder reads the same object then."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

from sluice.core.decoding.avro.types import without_times
from sluice.core.decoding.filling.json import OTHER_VALUE, TWICE, JsonFiller
from sluice.core.decoding.filling.merging import HAS_A_VALUE
from sluice.core.decoding.json.decoder import JsonDecoder

KEPT = "_unknown_fields"
BEFORE = {"id": "bigint"}
NOW = BEFORE | {
    "text": "string", "number": "double", "amount": "decimal(9,2)", "at": "timestamp", "day": "date",
    "is": "boolean",
}  # fmt: skip
TEXT = (
    '{"id": 1, "text": "\\u00e4\\"", "number" : 1.50, "amount":"12.3", "at":"2026-01-02T03:04:05Z", '
    '"day":"2026-01-02","is":null, "other": {"a": [1.0]}}'
)


def decoded(columns: dict[str, str], text: str) -> dict[str, Any]:
    """A row, times as numbers."""
    found = JsonDecoder(columns, KEPT).decode(pa.array([text.encode()]), None).columns
    kind = pa.struct(list(found.schema))
    (row,) = found.to_struct_array().cast(without_times(kind)).to_pylist()
    return row


def test_members_become_what_the_decoder_reads_of_the_whole_object() -> None:
    row, expected = decoded(BEFORE, TEXT), decoded(NOW, TEXT)
    filler = pickle.loads(pickle.dumps(JsonFiller(NOW)))  # noqa: S301
    found = filler.fill(dict.fromkeys(NOW) | {"id": row["id"]}, row[KEPT])
    assert {"id": row["id"], **found.values, KEPT: found.left} == expected
    assert (found.fields, found.kept) == (["text", "number", "amount", "at", "day", "is"], [])
    assert expected[KEPT] == '{"other": {"a": [1.0]}}'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"number":"x"}', OTHER_VALUE),
        ('{"number":1,"number":1}', TWICE),
        ('{"id":2}', HAS_A_VALUE),
    ],
)
def test_a_member_that_its_column_cannot_have_stays(text: str, reason: str) -> None:
    found = JsonFiller(NOW).fill(dict.fromkeys(NOW) | {"id": 1}, text)
    assert (found.values, found.left, found.fields) == ({}, text, [])
    assert {why for _, why in found.kept} == {reason}
