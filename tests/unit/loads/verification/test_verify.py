"""The verification of a load over a real (SQLite and files) lake: exact, and each way of not being so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from sluice.clients.lake.catalog import Lake
from sluice.config import streams
from sluice.core.changes.plan import Action, ChangePlan
from sluice.core.changes.published import Changes
from sluice.core.changes.result import ChangeResult, RemovedRecord
from sluice.core.offsets.quarantine import WITHHELD_REASON
from sluice.core.offsets.ranges import OffsetRanges
from sluice.ledger import keys
from sluice.ledger.batch_log import FOLDER
from sluice.ledger.batches import BatchLog
from sluice.ledger.documents import Ledger
from tests.support import lake as lakes
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising
from tests.support.steps import ledger, sent
from tests.support.verification import NotVerifiedError, verify, wrong_columns

SOURCE = "a" * 16


class Load:
    """One source of ten rows, sent to offsets [0, 10) of partition 0; row n is at offset n."""

    def __init__(self, folder: Path) -> None:
        self.lake: Lake = lakes.make(folder)
        self.rows = 10
        self.s3 = MemoryS3()
        self.ledger = ledger("nyc_taxi", self.s3)
        self.names = names = {
            "source_id": SOURCE,
            "bucket": "source",
            "key": "k.csv",
            "version_id": "v",
            "etag": "e",
            "size": 1,
            "run_id": "r0",
        }
        sent(self.ledger, names, {"0": [0, 10]})

    def withhold(self) -> None:
        """As a load with ``withhold`` plans it."""
        self.s3.objects.clear()
        sent(self.ledger, {**self.names, "withheld": True}, {"0": [0, 10]})

    def batch_log(self, table: str) -> BatchLog:
        return BatchLog(self.lake.table(table), Ledger(self.s3.as_client(), "s3://w/nyc_taxi", FOLDER))

    def bucket(self, name: str) -> Load:
        return self

    def data_rows(self, version: Any, form: Any) -> int:
        return self.rows

    def quarantine(self, offsets: list[int], reason: str = "bad", row: bool = True, **more: Any) -> None:
        lakes.quarantine(
            self.lake,
            [
                {
                    "stage": "consumer", "reason": reason, "_kafka_partition": 0, "_kafka_offset": offset,
                    "_source_id": SOURCE if row else None, "_source_row": offset if row else None, **more,
                }
                for offset in offsets
            ],
        )  # fmt: skip

    def validate(self, limit: float = 50.0) -> dict[str, Any]:
        return verify(self, "nyc_taxi", self.ledger, limit)


@pytest.fixture
def load(tmp_path: Path) -> Load:
    return Load(tmp_path)


def span(start: int, until: int) -> list[tuple[int, int]]:
    return [(0, offset) for offset in range(start, until)]


def test_exact_and_in_the_ledger(load: Load) -> None:
    lakes.append(load.lake, span(0, 10))
    found = load.validate()
    assert (found["status"], found["published"], found["gaps"]) == ("passed", 10, 0)
    proof = load.ledger.get(keys.run_key("r", "proof"))
    assert proof is not None
    assert proof["ranges"] == {"0": [[0, 10]]}


def test_a_file_that_holds_other_loads_too_is_not_unexpected(load: Load) -> None:
    lakes.append(load.lake, span(0, 4))
    lakes.append(load.lake, span(4, 8))
    # One file, of which two rows are the load's: their source's numbers 8 and 9, and more of the source's.
    lakes.append(load.lake, span(8, 12))
    load.rows = 12
    assert load.validate()["status"] == "passed"


def test_holes_that_the_quarantine_explains_even_beyond_the_load(load: Load) -> None:
    lakes.append(load.lake, [*span(0, 3), *span(4, 10)])
    load.quarantine([3])
    found = load.validate()
    assert (found["status"], found["published"], found["quarantined"]) == ("passed", 9, 1)


def test_an_offset_that_is_in_quarantine_twice_is_not_there_once(load: Load) -> None:
    lakes.append(load.lake, [*span(0, 3), *span(4, 10)])
    load.quarantine([3, 3])
    with raising(NotVerifiedError, "1 duplicates (0=[3,4))"):
        load.validate()


def test_a_repeat_is_no_row_of_its_own(load: Load) -> None:
    lakes.append(load.lake, span(0, 10))
    load.quarantine([10, 11], reason="duplicate: this row is in the table already")
    found = load.validate()
    assert found["quarantined"] == 0


def test_withheld_rows_are_good_and_count_once(load: Load) -> None:
    load.withhold()
    load.quarantine(list(range(10)), reason=WITHHELD_REASON)
    # Sent again by a producer that was believed dead, to another offset.
    load.quarantine([10], reason=WITHHELD_REASON, row=False, _source_id=SOURCE, _source_row=9)
    found = load.validate(limit=0)
    assert (found["published"], found["quarantined"], found["withheld"]) == (0, 10, 10)


def test_rows_that_are_withheld_and_were_not_planned_so_count_towards_the_limit(load: Load) -> None:
    """Another producer's: any may send such a key."""
    lakes.append(load.lake, span(0, 8))
    load.quarantine([8, 9], reason=WITHHELD_REASON)
    with raising(NotVerifiedError, "quarantine: 2 of 10 rows", "20.00 %"):
        load.validate(limit=9)


def test_a_bad_row_among_withheld_ones_counts_towards_the_limit(load: Load) -> None:
    load.withhold()
    load.quarantine(list(range(9)), reason=WITHHELD_REASON)
    load.quarantine([9])
    with raising(NotVerifiedError, "quarantine: 1 of 10 rows", "10.00 %"):
        load.validate(limit=9)
    assert load.validate(limit=10)["withheld"] == 9


def test_a_copy_of_a_published_row_that_is_withheld_is_no_row_of_its_own(load: Load) -> None:
    lakes.append(load.lake, span(0, 10))
    load.quarantine([10], reason=WITHHELD_REASON, row=False, _source_id=SOURCE, _source_row=3)
    found = load.validate(limit=0)
    assert (found["published"], found["quarantined"], found["withheld"]) == (10, 0, 0)


def test_a_row_that_the_producer_refused_is_accounted_for(load: Load) -> None:
    lakes.append(load.lake, span(0, 10))
    load.rows = 11
    load.quarantine([10], stage="producer", _kafka_partition=None, _kafka_offset=None, _source_row=10)
    assert load.validate()["quarantined"] == 1


@pytest.mark.parametrize(
    ("hits", "limit", "data"),
    [
        (10, 10.0, ()),
        (11, 10.0, ("11 generated rows of seed 1", "1 missing (rows [10,11")),
        (10, 9.0, ("1 of 10 rows", "10.00 %", "9 %")),
    ],
    ids=["as many", "one too few", "too much in quarantine"],
)
def test_the_rows_of_a_generated_source_are_as_many_as_it_says(
    load: Load, hits: int, limit: float, data: tuple[str, ...]
) -> None:
    parameters = {"rows": hits, "seed": 1, "start_time": "2026-11-21T10:00:00Z", "duration_hours": 1}
    source = {"source_id": SOURCE, "kind": "generated", "parameters": parameters}
    load.ledger = ledger("nyc_taxi")
    sent(load.ledger, source, {"0": [0, 10]})
    lakes.append(load.lake, [*span(0, 4), *span(5, 10)])
    load.quarantine([4], reason="not JSON")
    if data:
        with raising(NotVerifiedError, *data):
            load.validate(limit)
        return
    found = load.validate(limit)
    assert (found["status"], found["published"], found["quarantined"]) == ("passed", 9, 1)
    (of_proof,) = load.ledger.require(keys.run_key("r", "proof"), "validate")["sources"]
    assert of_proof["generated"] == parameters


RED: dict[str, tuple[list[list[tuple[int, int]]], list[int], int, tuple[str, ...]]] = {
    "a gap": (
        [span(0, 4), span(5, 10)],
        [],
        10,
        ("1 gaps (0=[4,5))", "1 missing (rows [4,5"),
    ),
    "a gap inside a file": ([[*span(0, 4), *span(5, 10)]], [], 10, ("1 gaps",)),
    "an offset twice": ([span(0, 10), span(7, 8)], [], 10, ("1 duplicates (0=[7,8))",)),
    "published and in quarantine": ([span(0, 10)], [7], 10, ("1 duplicates", "1 more than once")),
    "a row too few in the lake": ([span(0, 10)], [], 11, ("1 missing (rows [10,11))",)),
    "a row that the object lacks": ([span(0, 10)], [], 9, ("k.csv", "1 not in the source")),
    "too much in quarantine": ([span(0, 4)], [*range(4, 10)], 10, ("6 of 10 rows", "60.00 %", "50")),
}


@pytest.mark.parametrize(("batches", "quarantined", "rows", "data"), RED.values(), ids=RED.keys())
def test_what_is_not_exact_is_red_and_leaves_no_proof(
    load: Load,
    batches: list[list[tuple[int, int]]],
    quarantined: list[int],
    rows: int,
    data: tuple[str, ...],
) -> None:
    load.rows = rows
    for batch in batches:
        lakes.append(load.lake, batch)
    if quarantined:
        load.quarantine(quarantined)
    with raising(NotVerifiedError, *data):
        load.validate()
    assert load.ledger.get(keys.run_key("r", "proof")) is None


def test_reasons_of_producers_name_object_row_and_line_and_the_whole_line_of_the_declaration(
    load: Load,
) -> None:
    lakes.append(load.lake, span(0, 2))
    reason = "column tpep_pickup_datetime: '1/31/2016 4:05' is not a time"
    of_producer: dict[str, Any] = {"stage": "producer", "_kafka_partition": None, "_kafka_offset": None}
    for row in range(9, 1, -1):
        place: dict[str, Any] = {"_source_row": row, "object": "s3://source/k.csv", "line": row + 3}
        load.quarantine([row], reason=reason, **of_producer, **place)
    load.quarantine([5], reason="column a is empty", **of_producer, _source_id="b" * 16)
    formats = [*streams.load("nyc_taxi").csv.time_formats, "M/d/yyyy H:mm"]
    said = ", ".join(json.dumps(one) for one in formats)
    first = "quarantine: 8 rows (first: s3://source/k.csv row 2, line 5): column tpep_pickup_datetime: "
    with raising(NotVerifiedError, first, f"[csv] time_formats = [{said}]", "load=r0") as caught:
        load.validate(limit=50)
    assert "is empty" not in str(caught.value)


def test_deleted_rows_are_gaps(load: Load) -> None:
    lakes.append(load.lake, span(0, 10))
    load.lake.catalog.load_table(lakes.TABLE).delete("_kafka_offset = 5")
    with raising(NotVerifiedError, "1 gaps (0=[5,6))"):
        load.validate()


def test_the_real_schema_is_compared(load: Load) -> None:
    problems = wrong_columns("nyc_taxi", load.ledger, load.lake.table(lakes.TABLE))
    schema = streams.load("nyc_taxi").schema_file.read_text()
    names = [f["name"] for f in json.loads(schema)["fields"]]
    missing = [name for name in [*names, "_kafka_timestamp", "_source_base_offset"] if name != "fare_amount"]
    assert len(problems) == len(missing)


def remove(load: Load) -> None:
    """A change takes the records at 3 and 4 out."""
    none = ChangeResult.none()
    plan = ChangePlan("c1", Action.REMOVE, "nyc-avro-topic", rows_out=OffsetRanges.of({0: [(3, 5)]}))
    gone = [RemovedRecord(0, 3, SOURCE, 3), RemovedRecord(0, 4, SOURCE, 4)]
    document = replace(none, id="c1", out=plan.rows_out, records=gone).after(plan, none).to_document()
    load.s3.objects["w", "changes/c1.json"] = json.dumps(document).encode()
    said = Changes().more("c1", "s3://w/changes/c1.json").properties()
    table = load.lake.catalog.load_table(lakes.TABLE)
    kept = table.scan("_kafka_offset < 3 or _kafka_offset > 4").to_arrow()
    table.overwrite(kept, snapshot_properties=lakes.summary("change", 1, {0: 10}) | said)


def test_a_change_that_is_published_meanwhile_is_no_gap(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """The load is verified as it was before, by one state of the table."""
    lakes.append(load.lake, span(0, 10), lakes.summary("batch", 1, {0: 10}, ranges={0: (0, 10)}))
    table_of, is_published = load.lake.table, False

    def table(name: str) -> Table:
        nonlocal is_published
        found = table_of(name)
        if not is_published:
            is_published = True
            remove(load)
        return found

    monkeypatch.setattr(load.lake, "table", table)
    assert load.validate()["published"] == 10
    assert load.validate()["published"] == 8


def test_records_that_a_change_removed_are_no_gaps_and_no_missing_rows(load: Load) -> None:
    none = ChangeResult.none()
    plan = ChangePlan("c1", Action.REMOVE, "nyc-avro-topic", rows_out=OffsetRanges.of({0: [(3, 5)]}))
    gone = [RemovedRecord(0, 3, SOURCE, 3), RemovedRecord(0, 4, SOURCE, 4)]
    document = replace(none, id="c1", out=plan.rows_out, records=gone).after(plan, none).to_document()
    load.s3.objects["w", "changes/c1.json"] = json.dumps(document).encode()
    said = Changes().more("c1", "s3://w/changes/c1.json").properties()
    lakes.append(load.lake, [*span(0, 3), *span(5, 10)], lakes.summary("change", 1, {0: 10}) | said)
    found = load.validate()
    assert (found["status"], found["published"], found["removed"], found["gaps"]) == ("passed", 8, 2, 0)
    # Any other is.
    lakes.append(load.lake, [], lakes.summary("change", 1, {0: 10}) | said)
    load.lake.catalog.load_table(lakes.TABLE).delete("_kafka_offset = 7")
    with raising(NotVerifiedError, "1 gaps", "0=[7,8)", "1 missing", "[7,8)"):
        load.validate()
