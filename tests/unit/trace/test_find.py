"""A row is traced to its line and back, from files whose bounds match alone."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from pyiceberg.table import ManifestGroupPlanner
from pyiceberg.types import BinaryType

from sluice.clients.lake.reading import rows as held
from sluice.clients.s3.objects import Bucket, ObjectVersion
from sluice.config import streams
from sluice.core.changes.plan import Action, ChangePlan
from sluice.core.changes.published import Changes
from sluice.core.changes.result import ChangeResult
from sluice.core.errors import Missing
from sluice.core.offsets.ranges import OffsetRanges
from sluice.ledger.batches import BatchLog
from sluice.ledger.documents import Ledger
from sluice.ledger.keys import planned_key, produced_key
from sluice.loads.known.index import ObjectContents
from sluice.loads.known.verified import VerifiedSources
from sluice.trace.find import StreamTrace
from sluice.trace.record_schema import Record
from sluice.trace.rows import QUARANTINE, TABLE, Absence
from tests.support import lake as lakes
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising

CSV = b'a,b\n0,0\n\n1,1\n2,"2\n2"\n3,3\n4,4\nbad\n'
SPEC = streams.load("nyc_taxi")


class Rig:
    """A source of six rows: at offsets 0 to 4 of partition 0, and one that the producer rejected."""

    def __init__(self, folder: Path) -> None:
        self.s3, self.lake = MemoryS3(), lakes.make(folder)
        self.s3.objects["source", "trips.csv.gz"] = gzip.compress(CSV)
        self.version = Bucket(self.s3.as_client(), "source").head("trips.csv.gz")
        self.ledger = Ledger(self.s3.as_client(), "s3://warehouse/ledger", "nyc_taxi")
        lakes.append(self.lake, [(1, n) for n in range(100)], self.summary({0: 0, 1: 100}), "f" * 16)
        head = self.lake.heads(lakes.TABLE)[lakes.TABLE]
        self.plan(self.version, main={lakes.TABLE: vars(head)})
        source = self.version.source_id
        lakes.append(self.lake, [(0, n) for n in range(3)], self.summary({0: 3, 1: 100}), source)
        lakes.append(self.lake, [(0, 3), (0, 4)], self.summary({0: 6, 1: 100}), source)
        bad = {"_source_id": source, "object": self.version.uri}
        lakes.quarantine(
            self.lake,
            [
                {"stage": "producer", "reason": "1 column", "_source_row": 5, "line": 8, **bad},
                {
                    "stage": "consumer",
                    "reason": "duplicate",
                    "_source_row": 2,
                    "_kafka_partition": 0,
                    "_kafka_offset": 5,
                    "_source_id": source,
                },
            ],
        )

    def summary(self, ends: dict[int, int]) -> dict[str, str]:
        ranges = {0: (max(ends[0] - 3, 0), ends[0])} if ends[0] else {1: (0, 100)}
        return lakes.summary(
            "batch", 1, ends, ranges=ranges, more={"writer": "w1_a", "batch-id": "4", "topic-id": "t"}
        )

    def plan(self, version: ObjectVersion, **more: Any) -> None:
        document = {**vars(version), "source_id": version.source_id, "main": {}, "run_id": "run_1", **more}
        self.ledger.put(planned_key(version.source_id), document)

    def produced(self, start: int, end: int) -> None:
        key = produced_key(self.version.source_id)
        self.ledger.put(key, {"ranges": {"0": [start, end]}, "run_id": "run_1"})

    def reverted(self, offsets: dict[int, tuple[int, int]]) -> None:
        """As after a change that took these rows of the source out."""
        plan = ChangePlan("c1", Action.REVERT, SPEC.topic.name, reverts=(self.version.source_id,))
        none, gone = ChangeResult.none(), OffsetRanges.of({p: [pair] for p, pair in offsets.items()})
        result = ChangeResult("c1", Action.REVERT, gone, 1, none.out, none.out, none.out, 0, 1, 0)
        document = result.after(plan, none).to_document()
        self.s3.objects["lake", "changes/c1.json"] = json.dumps(document).encode()
        said = Changes().more("c1", "s3://lake/changes/c1.json").properties()
        summary = lakes.summary("change", 1, {0: 7, 1: 100})
        table = self.lake.catalog.load_table(lakes.TABLE)
        table.append(lakes.ROWS.empty_table(), snapshot_properties=summary | said)

    @property
    def trace(self) -> StreamTrace:
        log = BatchLog(self.lake.table(lakes.TABLE), Ledger(self.s3.as_client(), "s3://lake/t", "batches"))
        kafka: Any = SimpleNamespace(begins=lambda _: {0: 0, 1: 0}, ends=lambda _: {0: 20, 1: 100})
        return StreamTrace(SPEC, self.lake, self.ledger, log, kafka)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


@contextmanager
def files_read() -> Iterator[list[str]]:
    found: list[str] = []
    read = held.read

    def noted(*args: Any, **named: Any) -> Any:
        found.extend(task.file.file_path for task in named["tasks"])
        return read(*args, **named)

    with patch.object(held, "read", noted):
        yield found


def test_an_offset_leads_to_line_version_batch_and_file(rig: Rig) -> None:
    with files_read() as read:
        found = rig.trace.offset(0, 3)
    assert found.source is not None
    assert found.source.identity == {"object": rig.version.uri, "version_id": rig.version.version_id}
    assert (found.source.source_id, found.source.planned_by) == (rig.version.source_id, "run_1")
    assert (found.row, found.line, CSV.splitlines()[7 - 1]) == (3, 7, b"3,3")
    (place,) = found.places
    assert (place.where, place.partition, place.offset, read) == (TABLE, 0, 3, [place.file])
    assert place.snapshot_id == rig.lake.heads(lakes.TABLE)[lakes.TABLE].snapshot_id
    assert place.batch is not None
    assert (place.batch.snapshot_id, str(place.batch.ranges)) == (place.snapshot_id, "0=[3,6)")


def test_the_schema_of_a_record_is_asked_for_where_it_has_a_place(rig: Rig) -> None:
    """A row that no record is of has none."""
    trace = rig.trace
    trace = StreamTrace(SPEC, rig.lake, rig.ledger, trace.batches, trace.kafka, str)
    (place,) = trace.offset(0, 3).places
    assert place.record == {"schema": str(Record(0, 3, place.batch))}
    (place,) = trace.row(rig.version.source_id, 5).places
    assert place.record == {}


def test_a_quarantined_record_has_its_schema_in_its_value(rig: Rig) -> None:
    quarantine = rig.lake.catalog.load_table(lakes.QUARANTINE)
    quarantine.update_schema().add_column("value", BinaryType()).commit()
    row = {"stage": "consumer", "_kafka_partition": 2, "_kafka_offset": 9, "value": b"\0\0\0\0\7x"}
    schema = lakes.BAD_ROWS.append(pa.field("value", pa.binary()))
    quarantine.append(pa.Table.from_pylist([row], schema=schema))
    trace = StreamTrace(SPEC, rig.lake, rig.ledger, rig.trace.batches, rig.trace.kafka, str)
    (place,) = trace.offset(2, 9).places
    assert place.record == {"schema": str(Record(2, 9, place.batch, b"\0\0\0\0\7x"))}


def test_a_record_that_no_load_sent_has_no_source(rig: Rig) -> None:
    lakes.append(rig.lake, [(2, 0)], source=None)
    found = rig.trace.offset(2, 0)
    assert (found.row, found.line) == (None, None)
    assert dict(found.fields())["source"] == "external record"


def test_a_quarantined_offset_has_its_reason_and_the_line_of_its_row(rig: Rig) -> None:
    found = rig.trace.offset(0, 5)
    (place,) = found.places
    assert (place.where, place.reason, found.row, found.line) == (QUARANTINE, "duplicate", 2, 5)


def test_a_row_is_found_in_both(rig: Rig) -> None:
    found = rig.trace.row(rig.version.source_id, 2)
    assert [(place.where, place.offset) for place in found.places] == [(TABLE, 2), (QUARANTINE, 5)]
    (place,) = rig.trace.row(rig.version.source_id, 5).places
    assert (place.where, place.offset, place.reason) == (QUARANTINE, None, "1 column")


def test_a_row_in_neither_says_why(rig: Rig) -> None:
    assert [rig.trace.offset(*where).absent.why for where in ((0, 6), (0, 20), (3, 0))] == [  # type: ignore[union-attr]
        Absence.NOT_PUBLISHED,
        Absence.BEYOND_END,
        Absence.NO_PARTITION,
    ]

    def of_row(row: int) -> Absence:
        absent = rig.trace.row(rig.version.source_id, row).absent
        assert absent is not None
        return absent.why

    assert of_row(6) is Absence.NO_ROW
    rig.s3.any_version = True
    rig.s3.objects["source", "trips.csv.gz"] = gzip.compress(CSV + b"7,7\n")
    assert of_row(6) is Absence.NOT_SENT
    rig.produced(0, 7)
    assert of_row(6) is Absence.NOT_PUBLISHED
    lakes.append(rig.lake, [(0, 0)], rig.summary({0: 7, 1: 100}), "f" * 16)
    assert of_row(6) is Absence.MISSING
    rig.reverted({0: (6, 7)})
    assert of_row(6) is Absence.REMOVED
    assert rig.trace.offset(0, 6).absent.why is Absence.REMOVED  # type: ignore[union-attr]


def test_an_object_leads_to_its_rows_without_reading_files_that_hold_nothing_else(rig: Rig) -> None:
    with files_read() as read:
        found = rig.trace.source(rig.version.uri)
    assert (found.rows, str(found.offsets)) == (5, "0=[0,5)")
    assert sorted(map(str, found.files.values())) == ["0=[0,3)", "0=[3,5)"]
    assert sorted((r.reason, r.row, r.line, r.offset) for r in found.rejected) == [
        ("1 column", 5, 8, None),
        ("duplicate", 2, None, 5),
    ]
    assert not [path for path in read if "quarantine" not in path]
    assert found == rig.trace.source(rig.version.uri, rig.version.version_id or "")
    # A gap, and another source: such files are read.
    lakes.append(rig.lake, [(0, 8), (0, 10)], source=rig.version.source_id)
    again = rig.trace.source(rig.version.uri)
    assert (again.rows, str(again.offsets)) == (7, "0=[0,5),[8,9),[10,11)")


def test_an_object_that_was_uploaded_again_leads_to_the_rows_of_its_content(rig: Rig) -> None:
    source = Bucket(rig.s3.as_client(), "source")
    verified = VerifiedSources(rig.ledger, rig.lake, lakes.TABLE)
    ObjectContents(rig.ledger, source, verified).claim([rig.version], lambda found: found)
    before = rig.trace.source(rig.version.uri)
    rig.s3.copies["source", rig.version.key] += 1
    assert source.head(rig.version.key).source_id != rig.version.source_id
    assert rig.trace.source(rig.version.uri) == before


def test_what_was_written_before_the_plan_is_not_looked_at(rig: Rig) -> None:
    manifests: list[int] = []
    plan = ManifestGroupPlanner.plan_files

    def noted(self: Any, found: Any, *rest: Any) -> Any:
        manifests.extend(manifest.sequence_number for manifest in found)
        return plan(self, found, *rest)

    with patch.object(ManifestGroupPlanner, "plan_files", noted):
        rig.trace.source(rig.version.uri)
    assert sorted(manifests) == [1, 2, 3], "the quarantine's, and two of the table's three"


def test_rows_of_two_sources_in_one_file_are_told_apart(rig: Rig) -> None:
    other = {"fare_amount": 1.0, "_kafka_partition": 2, "_source_id": "0" * 16}
    rows = [{**other, "_kafka_offset": n, "_source_row": n} for n in range(6)]
    rows[4]["_source_id"] = rig.version.source_id
    rig.lake.catalog.load_table(lakes.TABLE).append(pa.Table.from_pylist(rows, schema=lakes.ROWS))
    assert str(rig.trace.source(rig.version.uri).offsets) == "0=[0,5) 2=[4,5)"


def test_an_object_or_source_that_no_load_planned_is_named(rig: Rig) -> None:
    with raising(Missing, "s3://source/none.csv"):
        rig.trace.source("s3://source/none.csv")
    with raising(Missing, rig.version.uri, "v9", "nyc_taxi"):
        rig.trace.source(rig.version.uri, "v9")
    with raising(Missing, "0" * 16):
        rig.trace.row("0" * 16, 1)


def test_a_generated_row_has_its_parameters_and_no_line(rig: Rig) -> None:
    source = {"source_id": "c" * 16, "kind": "generated", "parameters": {"seed": 7}, "run_id": "run_2"}
    rig.ledger.put(planned_key("c" * 16), source)
    lakes.append(rig.lake, [(2, 0)], source="c" * 16)
    found = rig.trace.offset(2, 0)
    assert (found.row, found.line) == (0, None)
    assert dict(found.fields())["generated"] == '{"seed": 7}'


def test_a_stream_without_quarantine_is_answered(rig: Rig) -> None:
    rig.lake.catalog.drop_table(lakes.QUARANTINE)
    assert [place.where for place in rig.trace.row(rig.version.source_id, 2).places] == [TABLE]
    assert rig.trace.source(rig.version.uri).rejected == []
