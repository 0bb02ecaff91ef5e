"""Event ids of a load, counted in the whole table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from pyiceberg.expressions import BooleanExpression
from pyiceberg.table import Table

from sluice.clients.lake.catalog import Lake
from sluice.clients.lake.reading import files
from sluice.clients.lake.reading.event_ids import MAX_RANGES, EventIdCounts, count_event_ids
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.offsets.sources import MAX_NAMED_IDS
from tests.support import lake as lakes

TABLE = "raw.events"
READ = files.read
ONE, TWO = date(2026, 11, 20), date(2026, 11, 21)


class Events:
    """A table of events, partitioned as a stream's; each row's offset grows."""

    def __init__(self, lake: Lake, partition_by: list[str], more: Sequence[pa.Field] = ()) -> None:
        self.lake = lake
        schema = pa.schema([("day", pa.date32()), ("event_id", pa.string()), *list(lakes.ROWS)[1:3], *more])
        table = lake.catalog.create_table(TABLE, schema)
        with table.update_spec() as update:
            for name in partition_by:
                update.add_identity(name)
        self.schema, self.next = schema, 0
        self.read: list[str | None] = []
        self.partition_by = partition_by

    def add(self, *rows: Any) -> OffsetRanges:
        """One batch of (day, event id, perhaps more); gives the offsets of its rows."""
        data = [
            {
                "day": day,
                "event_id": event,
                "_kafka_partition": 0,
                "_kafka_offset": self.next + number,
                **(more[0] if more else {}),
            }
            for number, (day, event, *more) in enumerate(rows)
        ]
        self.lake.catalog.load_table(TABLE).append(pa.Table.from_pylist(data, schema=self.schema))
        self.next += len(rows)
        return OffsetRanges.of({0: [(self.next - len(rows), self.next)]})

    def count(self, expected: OffsetRanges) -> EventIdCounts:
        """``read``: the ids that were read for it."""
        table = self.lake.table(TABLE)
        self.read.clear()
        rows = files.overlapping(expected)
        with patch.object(files, "read", self._read):
            return count_event_ids(table, rows, "event_id", self.partition_by)

    def _read(
        self, table: Table, rows: BooleanExpression, columns: tuple[str, ...], **given: Any
    ) -> pa.RecordBatchReader:
        reader = READ(table, rows, columns, **given)

        def batches() -> Iterator[pa.RecordBatch]:
            for batch in reader:
                self.read.extend(batch.column("event_id").to_pylist())
                yield batch

        return pa.RecordBatchReader.from_batches(reader.schema, batches())


@pytest.fixture(params=[["day"], []], ids=["by date", "one partition"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Events:
    lake = lakes.empty(tmp_path)
    lake.catalog.create_namespace("raw")
    return Events(lake, request.param)


def test_each_once(made: Events) -> None:
    made.add((ONE, "z"), (TWO, "y"))
    assert made.count(made.add((ONE, "a"), (TWO, "b"), (TWO, "c"))) == EventIdCounts(3, 0)


def test_twice_within_the_load(made: Events) -> None:
    assert made.count(made.add((ONE, "a"), (ONE, "b"), (ONE, "a"), (ONE, "a"))) == EventIdCounts(
        4, 0, {"a": 3}
    )


def test_once_in_the_load_and_once_in_another(made: Events) -> None:
    made.add((ONE, "a"), (ONE, "x"), (ONE, "x"))
    load = made.add((ONE, "a"), (ONE, "b"))
    made.add((ONE, "b"))
    # x is there twice too, and is none of this load's.
    assert made.count(load) == EventIdCounts(2, 0, {"a": 2, "b": 2})


def test_rows_without_an_id_are_counted_and_are_no_duplicates(made: Events) -> None:
    assert made.count(made.add((ONE, None), (ONE, None), (ONE, "a"))) == EventIdCounts(3, 2)


def test_rows_without_a_date_are_looked_for_everywhere(made: Events) -> None:
    made.add((TWO, "a"))
    assert made.count(made.add((None, "a"), (ONE, "b"))) == EventIdCounts(2, 0, {"a": 2})


def test_nothing_at_all(made: Events) -> None:
    assert made.count(OffsetRanges.of({0: [(0, 5)]})) == EventIdCounts(0, 0)
    made.add((ONE, "a"))
    assert made.count(OffsetRanges.of({0: [(5, 9)]})) == EventIdCounts(0, 0)
    assert made.count(made.add((ONE, None))) == EventIdCounts(1, 1)


def test_only_the_dates_of_the_load_are_read(tmp_path: Path) -> None:
    lake = lakes.empty(tmp_path)
    lake.catalog.create_namespace("raw")
    made = Events(lake, ["event_id", "day"])
    made.add((TWO, "far away"))
    load = made.add((ONE, "a"))
    assert made.count(load) == EventIdCounts(1, 0)
    assert made.read == ["a", "a"]


# Moments: of a day that is not compacted yet, only the files of about the same time are read.


class Timed(Events):
    """The same with a moment of each event, and Kafka's of each record."""

    def __init__(self, lake: Lake) -> None:
        moment = pa.timestamp("us", "UTC")
        more = pa.schema([("_kafka_timestamp", moment), ("happened", moment), ("noticed", moment)])
        super().__init__(lake, ["day"], more)

    def at(self, *rows: tuple[str, datetime | None]) -> OffsetRanges:
        return self.add(
            *((ONE, event, {"happened": moment, "_kafka_timestamp": LATER}) for event, moment in rows)
        )


NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=3)


@pytest.fixture
def timed(tmp_path: Path) -> Timed:
    lake = lakes.empty(tmp_path)
    lake.catalog.create_namespace("raw")
    return Timed(lake)


def minutes(count: float) -> datetime:
    return NOON + timedelta(minutes=count)


def test_only_moments_of_the_load_are_read(timed: Timed) -> None:
    for number in range(2):
        timed.at((f"before {number}", minutes(-60 + number)), (f"after {number}", minutes(60 + number)))
    timed.at(("same minute", minutes(0.9)), ("far away", minutes(9)))
    load = timed.at(("a", minutes(0)), ("b", minutes(1)), ("late", minutes(-600)))
    assert timed.count(load) == EventIdCounts(3, 0)
    assert sorted(event or "" for event in timed.read) == ["a", "a", "b", "b", "late", "late", "same minute"]


def test_an_event_that_came_again_is_found_whenever_that_was(timed: Timed) -> None:
    timed.at(("a", minutes(0.2)), ("late", minutes(-600)))
    load = timed.at(("a", minutes(0.2)), ("late", minutes(-600)), ("b", minutes(59.999)))
    timed.at(("b", minutes(59.999)))
    assert timed.count(load) == EventIdCounts(3, 0, {"a": 2, "late": 2, "b": 2})


def test_an_event_without_a_moment_is_looked_for_at_every_time(timed: Timed) -> None:
    timed.at(("a", minutes(300)))
    assert timed.count(timed.at(("a", None), ("b", minutes(0)))) == EventIdCounts(2, 0, {"a": 2})


def test_moments_from_everywhere_are_a_bounded_question(timed: Timed) -> None:
    many = range(MAX_RANGES + 10)
    timed.at(("between", minutes(3)), *((f"x{n}", minutes(n * 7)) for n in many))
    load = timed.at(*((f"x{n}", minutes(n * 7)) for n in many))
    found = timed.count(load)
    # A few of many are named.
    assert found.duplicates == {f"x{n}": 2 for n in sorted(many, key=str)[:MAX_NAMED_IDS]}
    assert found.more == len(many) - MAX_NAMED_IDS
    assert "between" in timed.read, "so many ranges alone do not leave that out"
