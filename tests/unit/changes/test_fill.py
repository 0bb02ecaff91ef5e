"""Action fill_columns: its plan, its steps with nothing to fill, and what its verification must not pass."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import StringType

from sluice.changes import records as record_changes
from sluice.changes.approval import is_to_apply, why_unasked
from sluice.changes.verify import ChangeVerification
from sluice.clients.lake.reading import further_fields
from sluice.config.sections.csv import Csv
from sluice.config.sections.records.declaration import Records
from sluice.core.changes.filled import FilledFields, KeptValues
from sluice.core.changes.plan import Action, ChangePlan
from sluice.core.changes.published import Changes
from sluice.core.changes.result import ChangeResult
from sluice.core.errors import Refused
from sluice.core.offsets.ranges import OffsetRanges
from sluice.ledger.keys import run_key
from tests.support import lake as lakes
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising
from tests.support.steps import ledger

KEPT = "_unknown_fields"
NAMED = pa.schema([*lakes.ROWS, pa.field(KEPT, pa.string()), pa.field("city", pa.string())])
TOPIC = "others"
FILLED = FilledFields(1, {"city": 1}, ("city",), (KeptValues("n", "it may be of 2 branches", 1, 0, 4),))


def of(*pairs: tuple[int, int]) -> OffsetRanges:
    return OffsetRanges.of({0: pairs})


class Kept:
    """A table with files of offsets [0, 3) without further fields, [3, 6) with one, and [10, 12) with two."""

    def __init__(self, folder: Path) -> None:
        self.lake, self.objects = lakes.make(folder), MemoryS3()
        self.ledger = ledger("nyc_taxi", self.objects)
        self.spec: Any = SimpleNamespace(
            name="others", table=lakes.TABLE, quarantine_table=lakes.QUARANTINE, records=Records("avro"),
            topic=SimpleNamespace(name=TOPIC),
        )  # fmt: skip
        with self.table.update_schema() as update:
            for name in (KEPT, "city"):
                update.add_column(name, StringType())
        self.append([(0, None), (1, None), (2, None)])
        self.append([(3, None), (4, '{"city":"Oslo","n":1}'), (5, None)])
        self.append([(10, "{}"), (11, "{}")])

    @property
    def table(self) -> Any:
        return self.lake.catalog.load_table(lakes.TABLE)

    def append(self, rows: list[tuple[int, str | None]]) -> None:
        self.table.append(self.rows([(at, text, None) for at, text in rows]))

    def rows(self, rows: list[tuple[int, str | None, str | None]], fare: float = 1.0) -> pa.Table:
        found = [
            {"fare_amount": fare, "_kafka_partition": 0, "_kafka_offset": at, KEPT: text, "city": city}
            for at, text, city in rows
        ]
        return pa.Table.from_pylist(found, NAMED)

    def fill(self, **params: Any) -> ChangePlan:
        stream: Any = SimpleNamespace(
            spec=self.spec,
            published=of((0, 20)),
            check_published=lambda asked: asked,
            with_further_fields=lambda asked: further_fields.offsets_with(
                self.lake.table(lakes.TABLE), self.spec.records.unknown_column, asked
            ),
            planned=lambda action, **parts: ChangePlan("c1", action, TOPIC, **parts),
        )
        return record_changes.fill(stream, params)

    def plan(self, plan: ChangePlan) -> dict[str, Any]:
        counted = {"rows_out": 1, "records_in": 1}
        return self.ledger.put(
            run_key("r", "change"),
            {**plan.to_document(), "counted": counted, "params": {}, "metadata": {}},
        )

    def exchange(
        self, rows: list[tuple[int, str | None, str | None]], fare: float = 1.0, **said: Any
    ) -> None:
        """Publish a change that exchanges the file of [3, 6) for these rows."""
        those = of((3, 6))
        more = {"change-id": "c1", "change-document": "s3://warehouse/changes/c1.json"}
        self.table.overwrite(
            self.rows(rows, fare),
            overwrite_filter="_kafka_offset >= 3 and _kafka_offset < 6",
            snapshot_properties={
                **lakes.summary("change", 1, {0: 20}, more=more),
                **Changes().more("c1", "").properties(),
                "sluice.rewrite-id": "change-c1-1",
            },
        )
        none = OffsetRanges()
        result = ChangeResult("c1", Action.FILL, those, 3, those, none, none, 0, 1, 1, filled=FILLED)
        document = json.dumps(replace(result, **said).to_document()).encode()
        self.objects.objects["warehouse", "changes/c1.json"] = document

    def verify(self) -> dict[str, Any]:
        systems: Any = SimpleNamespace(s3=self.objects.as_client(), lake=self.lake)
        return ChangeVerification(systems, self.spec, self.ledger, "r").run(lambda: True)


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def test_files_with_a_further_field_are_planned_by_their_metadata(kept: Kept) -> None:
    plan = kept.fill()
    assert plan.rows_out == plan.rows_in == of((3, 6), (10, 12))
    assert (plan.is_empty, plan.reads_records) == (False, False)
    assert kept.fill(ranges=f"{TOPIC}: 0=[2,5)").rows_out == of((3, 5))
    table = kept.lake.table(lakes.TABLE)
    assert further_fields.rows_with(table, KEPT, plan.rows_out) == 3
    assert further_fields.rows_with(table, KEPT, of((3, 4))) == 1


@pytest.mark.parametrize("column", ["", "other"])
def test_a_table_without_the_column_has_nothing_to_fill(kept: Kept, column: str) -> None:
    kept.spec.records = Records("avro", unknown_fields=column)
    assert kept.fill().is_empty


def test_it_reads_no_topic(kept: Kept) -> None:
    with raising(Refused, "fill_columns reads no topic", "Fix: give ranges"):
        kept.fill(from_time="2026-01-01")


def test_a_map_of_extra_columns_is_refused_with_the_way_on(kept: Kept) -> None:
    kept.spec.records, kept.spec.csv = None, Csv(extra_columns="rest")
    with raising(Refused, "others keeps in the map 'rest'", "Fix: revert the load", "load_changed_objects"):
        kept.fill()


def test_with_nothing_to_fill_every_step_ends_green(kept: Kept) -> None:
    document = kept.plan(kept.fill(ranges=f"{TOPIC}: 0=[0,3)"))
    assert why_unasked(document, Changes()) == "change c1 has nothing to fill"
    assert not is_to_apply(kept.ledger, "r", document, Changes())
    assert kept.verify() == {"rows_out": 0, "published": 0}


NEW: list[tuple[int, str | None, str | None]] = [(3, None, None), (4, '{"n":1}', "Oslo"), (5, None, None)]


def test_a_filled_row_is_the_same_but_for_its_columns_and_the_proof_says_what_stays(kept: Kept) -> None:
    kept.plan(kept.fill())
    kept.exchange(NEW)
    found = kept.verify()
    assert found["filled"] == (
        "1 rows filled (city 1); stays: n: it may be of 2 branches (1 rows, the first at "
        "partition 0 offset 4)"
    )
    proof = kept.ledger.get(run_key("r", "change-proof"))
    assert proof is not None
    assert ChangeResult.from_document(proof).filled == FILLED


@pytest.mark.parametrize(
    ("rows", "fare", "said", "problem"),
    [
        (NEW[:2], 1.0, {}, "1 gaps (0=[5,6))"),
        ([*NEW, NEW[0]], 1.0, {}, "duplicate"),
        (NEW, 2.0, {}, "3 rows of the removed files were to change in _unknown_fields, city alone"),
        (NEW, 1.0, {"filled": replace(FILLED, columns=())}, "to change in _unknown_fields alone"),
        (NEW, 1.0, {"out": of((3, 5))}, "were planned, "),
        (NEW, 1.0, {"out": of((3, 7)), "published": of((3, 7))}, "0=[3,6),[10,12) were planned, "),
        # Rows that the change was not to touch.
        ([(3, None, "x"), *NEW[1:]], 1.0, {"out": of((4, 6)), "published": of((4, 6))}, "were to stay"),
    ],
)
def test_a_difference_is_found(
    kept: Kept,
    rows: list[tuple[int, str | None, str | None]],
    fare: float,
    said: dict[str, Any],
    problem: str,
) -> None:
    kept.plan(kept.fill())
    kept.exchange(rows, fare, **said)
    with pytest.raises(Refused) as caught:
        kept.verify()
    assert problem in str(caught.value)


def test_a_message_does_not_grow_with_the_fields_and_documents_of_before_have_none() -> None:
    many = FilledFields(1, {f"f{n:03}": 1 for n in range(100)}, (), [*FILLED.kept] * 100)
    assert "f019 1)" in many.message()
    assert many.message().endswith("and 80 more in its document")
    document = ChangeResult.none().to_document()
    assert "filled" not in document
    assert ChangeResult.from_document(document).filled is None
