"""Why a row is in neither table nor quarantine, and how an answer reads."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.without_record import WithoutRecord
from sluice.trace.rows import (
    QUARANTINE,
    TABLE,
    Absence,
    Place,
    Rejected,
    RowTrace,
    Source,
    SourceTrace,
    absent_offset,
    absent_row,
    shown,
)
from tests.support.batches import batch

TOPIC, STARTS, ENDS = {0: (50, 300), 1: (0, 10)}, {0: 20, 1: 0}, {0: 200, 1: 0}
GONE = OffsetRanges.of({0: [(130, 140)]})
WITHOUT = WithoutRecord(
    control=OffsetRanges.of({0: [(150, 151)]}), skipped=OffsetRanges.of({0: [(160, 162)]})
)
SOURCE = Source({"object": "s3://source/a.csv", "version_id": "v1"}, "a" * 16, "run_1", "run_1")


@pytest.mark.parametrize(
    ("partition", "offset", "why", "named"),
    [
        (2, 0, Absence.NO_PARTITION, "0, 1"),
        (0, 300, Absence.BEYOND_END, "300"),
        (0, 299, Absence.NOT_PUBLISHED, "200"),
        (0, 200, Absence.NOT_PUBLISHED, "200"),
        (0, 199, Absence.MISSING, "200"),
        (0, 20, Absence.MISSING, "200"),
        (0, 130, Absence.REMOVED, "change"),
        (0, 150, Absence.WITHOUT_RECORD, "1 markers of transactions"),
        (0, 161, Absence.WITHOUT_RECORD, "1 tombstones, which the stream skips"),
        (0, 162, Absence.MISSING, "200"),
        (0, 19, Absence.BEFORE_START, "20"),
        (1, 0, Absence.NOT_PUBLISHED, "0"),
    ],
)
def test_an_offset_that_is_in_neither_has_its_reason(
    partition: int, offset: int, why: Absence, named: str
) -> None:
    found = absent_offset(partition, offset, TOPIC, STARTS, ENDS, GONE, WITHOUT.within)
    assert found.why is why
    assert named in found.detail


def test_an_offset_that_retention_deleted_before_it_was_published_is_named() -> None:
    found = absent_offset(0, 49, TOPIC, STARTS, {0: 40}, GONE, WITHOUT.within)
    assert (found.why, "50" in found.detail) == (Absence.DELETED, True)


def test_a_row_that_is_in_neither_has_its_reason() -> None:
    sent = OffsetRanges.of({0: [(10, 20)]})
    assert absent_row(3, None, {0: 99}).why is Absence.NOT_SENT
    assert absent_row(3, sent, {0: 15}).why is Absence.NOT_PUBLISHED
    assert "0=[15,20)" in str(absent_row(3, sent, {0: 15}))
    assert absent_row(3, sent, {0: 20}).why is Absence.MISSING
    assert absent_row(3, sent, {0: 20}, is_removed=True).why is Absence.REMOVED


def test_the_answer_for_a_row_names_all() -> None:
    place = Place(TABLE, "s3://lake/1.parquet", 5, 0, 12, batch=batch(7, 10, 20))
    copy = Place(QUARANTINE, "s3://lake/2.parquet", 6, 0, 14, "duplicate")
    fields = RowTrace("trips", SOURCE, 3, 5, [place, copy]).fields()
    assert fields[:7] == [
        ("topic", "trips"),
        ("source id", "a" * 16),
        ("object", "s3://source/a.csv"),
        ("version id", "v1"),
        ("load", "run_1"),
        ("row (from 0)", "3"),
        ("line (from 1)", "5"),
    ]
    texts = dict(fields[7:12])
    assert (texts["in"], texts["offset"], texts["data file"]) == ("table", "12", "s3://lake/1.parquet")
    assert texts["batch"].startswith("7 of w1_a, published 20")
    assert ("in", "quarantine: duplicate") in fields
    assert RowTrace("trips", SOURCE, 3, 5, [place]).to_json()["places"][0]["batch"]["snapshot_id"] == 7


def test_the_answer_for_a_source_counts_each_copy_and_names_reasons() -> None:
    files = {"b": OffsetRanges.of({0: [(0, 5)]}), "a": OffsetRanges.of({0: [(4, 9)], 1: [(0, 2)]})}
    rejected = [Rejected("bad", n, n + 2, None, None) for n in range(12)]
    fields = SourceTrace("trips", SOURCE, files, rejected).fields()
    assert ("rows in the table", "12") in fields
    assert ("offsets", "0=[0,9) 1=[0,2)") in fields
    assert ("data file", "a (7 rows)") in fields
    assert ("quarantined 12", "bad (rows 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, and 2 more)") in fields


def test_what_a_record_has_beside_its_value_is_shown() -> None:
    record = {"time": shown(datetime(2026, 6, 1, tzinfo=UTC)), "key": shown(b"k"), "headers": shown([])}
    place = Place(TABLE, "s3://lake/1.parquet", 5, 0, 12, record=record)
    fields = RowTrace("orders", SOURCE, None, None, [place]).fields()
    assert [text for name, text in fields if name.startswith("record's ")] == [
        "2026-06-01T00:00:00.000+00:00", "k", "(none)",
    ]  # fmt: skip
    headers = [{"key": "a", "value": b"1"}, {"key": "b", "value": b"\xff"}, {"key": "c", "value": None}]
    assert shown(headers) == "a=1, b=0xff, c=(none)"
    assert json.dumps(place.to_json())
