"""Rows of a table with their further fields in columns."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa

from sluice.core.decoding.filling.avro import AvroFiller
from sluice.core.decoding.filling.batches import Account, filled, lacking, with_columns
from sluice.core.decoding.filling.merging import HAS_A_VALUE

MICROS = {"type": "long", "logicalType": "timestamp-micros"}
DAY = {"type": "int", "logicalType": "date"}
PART = {
    "type": "record",
    "name": "P",
    "fields": [{"name": "at", "type": MICROS}, {"name": "day", "type": DAY}],
}
TREE = {
    "type": "record",
    "name": "T",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "parts", "type": {"type": "map", "values": PART}},
        {"name": "of", "type": ["null", "P"]},
    ],
}
KIND = pa.struct([("at", pa.timestamp("us", tz="UTC")), ("day", pa.date32())])
SCHEMA = pa.schema(
    [("_kafka_offset", pa.int64()), ("id", pa.int32()), ("parts", pa.map_(pa.utf8(), KIND)), ("of", KIND),
     ("kept", pa.utf8())]
)  # fmt: skip
AT, ON = datetime(2026, 1, 2, 3, 4, 5, 6, UTC), date(2026, 1, 2)


def test_rows_that_are_chosen_are_filled_and_no_other_value_changes() -> None:
    text = '{"parts":{"k":{"at":"2026-01-02T03:04:05.000006Z","day":"2026-01-02"}}}'
    # The last day that a column has is beyond Python's.
    rows = pa.RecordBatch.from_pylist([{"_kafka_offset": n, "id": n, "kept": text} for n in range(4)], SCHEMA)
    far = pa.array(
        [{"at": 2**62, "day": 2**31 - 1}] * 4, pa.struct([("at", pa.int64()), ("day", pa.int32())])
    )
    rows = rows.set_column(3, "of", far.cast(KIND)).set_column(
        4, "kept", pa.array([text, None, text, '{"of":null}'])
    )
    filler, account = AvroFiller([json.dumps(TREE)], json.dumps(TREE)), Account()
    found = dict(filled(rows, "kept", np.array([True, True, False, True]), filler))
    for place, one in found.items():
        account.add(one, (0, place))
    new = with_columns(rows, "kept", found)
    new.validate(full=True)
    assert new.column("parts").to_pylist() == [[("k", {"at": AT, "day": ON})], None, None, None]
    assert new.column("kept").to_pylist() == [None, None, text, '{"of":null}']
    assert new.drop_columns(["parts", "kept"]) == rows.drop_columns(["parts", "kept"])
    assert (account.rows, account.fields) == (1, {"parts": 1})
    assert (account.kept, account.first) == ({("of", HAS_A_VALUE): 1}, {("of", HAS_A_VALUE): (0, 3)})


def test_a_table_that_has_not_all_columns_yet_is_named() -> None:
    less = pa.struct([("id", pa.int64()), ("parts", pa.map_(pa.utf8(), pa.struct([("at", pa.int64())])))])
    wanted = pa.struct(list(SCHEMA)[1:4])
    assert lacking(wanted, less) == ["id", "parts[].day", "of"]
    assert lacking(wanted, pa.struct(list(SCHEMA))) == []
