"""The verification of a load from a feed, over a real (SQLite and files) lake."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from sluice.clients.lake.catalog import Lake
from sluice.config import streams
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.without_record import WithoutRecord
from sluice.ledger import keys
from sluice.ledger.batch_log import FOLDER
from sluice.ledger.batches import BatchLog
from sluice.ledger.documents import Ledger
from sluice.loads.announce import announcement
from sluice.loads.verification.proof import short
from tests.support import lake as lakes
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising
from tests.support.steps import audited, ledger, sent
from tests.support.verification import NotVerifiedError, verify, wrong_columns

ROWS = pa.schema(
    [
        ("change_timestamp_date", pa.date32()),
        ("server_name", pa.string()),
        ("event_id", pa.string()),
        ("_kafka_partition", pa.int32()),
        ("_kafka_offset", pa.int64()),
    ]
)
URL = "http://127.0.0.1:18081/v2/stream/recentchange"
DAY = date(2026, 11, 20)
SOURCE: dict[str, Any] = {
    "source_id": "feed-1",
    "kind": "feed",
    "feed": URL,
    "topic": "wiki-changes",
    "start_offsets": {"0": 0, "1": 5},
}


KAFKA = SimpleNamespace(
    describe=lambda topic: SimpleNamespace(id="t1"),
    begins=lambda topic: {0: 0, 1: 0},
    ends=lambda topic: {0: 10, 1: 10},
)
PLATFORM = SimpleNamespace(kafka=None)


class Load:
    """A run over [0, 10) of partition 0 and [5, 10) of partition 1; event ``p/n`` is at offset n of p."""

    def __init__(self, folder: Path) -> None:
        self.lake: Lake = lakes.empty(folder)
        self.lake.catalog.create_namespace("raw")
        table = self.lake.catalog.create_table("raw.wiki_changes", ROWS)
        with table.update_spec() as update:
            update.add_identity("change_timestamp_date")
            update.add_identity("server_name")
        self.lake.catalog.create_table("raw.wiki_changes_quarantine", lakes.BAD_ROWS)
        self.ledger = ledger("wiki_changes")
        sent(self.ledger, SOURCE, {"0": [0, 10], "1": [5, 10]})

    def batch(self, *places: tuple[int, int], server: str | None = None, ids: str = "", **more: Any) -> None:
        """One batch, as the writer writes it: a file for each date and server, of which there are three."""
        rows = [
            {
                "change_timestamp_date": DAY,
                "server_name": server or f"{'abc'[offset % 3]}.wikipedia.org",
                "event_id": ids or f"{partition}/{offset}",
                "_kafka_partition": partition,
                "_kafka_offset": offset,
                **more,
            }
            for partition, offset in places
        ]
        self.lake.catalog.load_table("raw.wiki_changes").append(pa.Table.from_pylist(rows, schema=ROWS))

    def quarantine(self, *places: tuple[int, int]) -> None:
        table = self.lake.catalog.load_table("raw.wiki_changes_quarantine")
        rows = [
            {"stage": "consumer", "reason": "not JSON", "_kafka_partition": p, "_kafka_offset": o}
            for p, o in places
        ]
        table.append(pa.Table.from_pylist(rows, schema=lakes.BAD_ROWS))

    def validate(self, limit: float = 50.0, run: str = "r") -> dict[str, Any]:
        systems = SimpleNamespace(lake=self.lake, batch_log=self.batch_log, kafka=KAFKA, platform=PLATFORM)
        return verify(systems, "wiki_changes", self.ledger, limit, run)

    def batch_log(self, table: str) -> BatchLog:
        documents = Ledger(MemoryS3().as_client(), "s3://w/wiki_changes", FOLDER)
        return BatchLog(self.lake.table(table), documents)


@pytest.fixture
def load(tmp_path: Path) -> Load:
    return Load(tmp_path)


ALL = [*((0, offset) for offset in range(10)), *((1, offset) for offset in range(5, 10))]


def test_exact_over_files_that_are_not_contiguous(load: Load) -> None:
    load.batch(*((1, offset) for offset in range(5)))
    load.batch(*ALL[:9])
    # Another load's records are in the same files.
    load.batch(*ALL[9:], (0, 10), (0, 11))
    found = load.validate()
    assert (found["status"], found["source_rows"], found["published"], found["quarantined"]) == (
        "passed",
        15,
        15,
        0,
    )
    proof = load.ledger.require(keys.run_key("r", "proof"), "validate")
    assert (found["sources"], found["proof"]) == (1, load.ledger.uri(keys.run_key("r", "proof")))
    assert proof["sources"] == [
        {"feed": URL, "source_id": "feed-1", "rows": 15, "published": 15, "quarantined": 0}
    ]
    assert proof["ranges"] == {"0": [[0, 10]], "1": [[5, 10]]}


def test_markers_of_transactions_are_no_events(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.clients.kafka.reader.delivered_among", lambda *given: OffsetRanges())
    load.batch(*ALL[:9], *ALL[10:])
    said = WithoutRecord(OffsetRanges.of({0: [(9, 10)]})).properties()
    ranges = {0: (0, 10), 1: (5, 10)}
    summary = lakes.summary("batch", 1, {0: 10, 1: 10}, ranges=ranges, more={"topic-id": "t1"})
    load.lake.catalog.load_table("raw.wiki_changes").append(ROWS.empty_table(), summary | said)
    found = load.validate()
    assert (found["status"], found["source_rows"], found["published"]) == ("passed", 14, 14)


def test_malformed_records_are_accounted_for(load: Load) -> None:
    load.batch(*ALL[2:])
    load.quarantine(*ALL[:2], (0, 99))
    found = load.validate()
    assert (found["published"], found["quarantined"]) == (13, 2)
    with raising(NotVerifiedError, "2 of 15 rows", "13.33 %", "5 %"):
        load.validate(limit=5)


def test_a_load_of_nothing_but_malformed_records(load: Load) -> None:
    load.quarantine(*ALL)
    with raising(NotVerifiedError, "15 of 15 rows", "none is published"):
        load.validate(limit=100)


def test_an_empty_range_is_exact(load: Load) -> None:
    sent(load.ledger, {**SOURCE, "source_id": "feed-2"}, {"0": [3, 3]}, run="e")
    assert load.validate(run="e")["source_rows"] == 0


Batches = list[tuple[list[tuple[int, int]], dict[str, Any]]]
# Batches of the table, what is in quarantine, and what the failure names.
RED: dict[str, tuple[Batches, list[tuple[int, int]], tuple[str, ...]]] = {
    "a gap": ([(ALL[1:], {})], [], ("1 gaps (0=[0,1))", URL, "1 missing")),
    "an offset twice": ([(ALL, {}), ([ALL[4]], {})], [],
        ("1 duplicates", "1 rows more", "1 event ids", "(0/4 2 times)")),
    "published and in quarantine": ([(ALL, {})], [ALL[4]], ("1 duplicates", "1 rows more")),
    "an event under two offsets": ([(ALL[:-1], {}), (ALL[-1:], {"ids": "0/3"})], [],
        ("1 event ids", "(0/3 2 times)")),
    "an event that another load has too": ([([(1, 1)], {"ids": "0/3"}), (ALL, {})], [],
        ("1 event ids", "(0/3 2 times)")),
    "an event on another server": (
        [([(1, 1)], {"ids": "0/3", "server": "z.wikipedia.org"}), (ALL, {})], [], ("1 event ids",)),
    "a row without an id": ([(ALL[1:], {}), (ALL[:1], {"event_id": None})], [], ("1 rows without",)),
    "nothing": ([], [], ("15 gaps",)),
}  # fmt: skip


@pytest.mark.parametrize(("batches", "quarantined", "data"), RED.values(), ids=RED.keys())
def test_what_is_not_exact_is_red_and_leaves_no_proof(
    load: Load, batches: Batches, quarantined: list[tuple[int, int]], data: tuple[str, ...]
) -> None:
    for places, values in batches:
        load.batch(*places, **values)
    if quarantined:
        load.quarantine(*quarantined)
    with raising(NotVerifiedError, *data):
        load.validate()
    assert load.ledger.get(keys.run_key("r", "proof")) is None


def test_the_real_schema_is_compared(load: Load) -> None:
    problems = wrong_columns("wiki_changes", load.ledger, load.lake.table("raw.wiki_changes"))
    assert any("title (string)" in problem for problem in problems)
    assert not any("event_id" in problem or "change_timestamp_date" in problem for problem in problems)


def test_what_is_announced_is_that_proof(load: Load) -> None:
    load.batch(*ALL)
    table = load.lake.catalog.load_table("raw.wiki_changes")
    said = lakes.summary("batch", 1, {0: 10, 1: 10})
    table.append(pa.Table.from_pylist([], schema=ROWS), snapshot_properties=said)
    load.validate()
    audited(load.ledger)

    def announced() -> dict[str, Any]:
        found = announcement(load.lake, streams.load("wiki_changes"), load.ledger, "r")
        return short(found.proof, load.ledger.uri(found.key))

    first = load.ledger.uri(keys.run_key("r", "proof"))
    found = announced()
    assert (found["status"], found["sources"], found["proof"]) == ("passed", 1, first)
    # Verified again, at another snapshot: the first proof does not stand for it.
    load.batch((0, 99))
    again = load.validate()
    audited(load.ledger)
    assert announced() == again
    assert again["proof"] == load.ledger.uri(keys.run_key("r", f"proof-{again['snapshot_id']}")) != first
