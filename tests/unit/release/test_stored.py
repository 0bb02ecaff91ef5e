"""What 0.1.0 stored is read by today's code: its ledger, and what its snapshots say (`tests/release`)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataUtil

from sluice.clients.lake import commits
from sluice.clients.lake.position import position
from sluice.config.sections.supervision import Supervision
from sluice.core.json_record import Document
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.summary import StreamPart
from sluice.ledger import keys, run_documents
from sluice.ledger.batches import BatchLog
from sluice.ledger.documents import Ledger
from sluice.ledger.history import History
from sluice.loads.known.index import newest_contents
from sluice.loads.known.verified import VerifiedSources
from sluice.loads.planning.plan import plan_of
from sluice.loads.sending import produced
from sluice.loads.sources import read_all
from tests.release import record
from tests.support.memory_s3 import MemoryS3

STORED: Document = json.loads(record.path_of("0.1.0").read_text())
STREAM, TABLE, BUCKET = "nyc_taxi", "raw.nyc_taxi", "warehouse"
RUN, SOURCE, ROWS = "demo-20261126T091735Z", "df5e9b5f48c79b0f", 29_999
ENDS = {**dict.fromkeys(range(9), 3000), 9: 2999}
NOW = datetime(2026, 11, 26, 9, 22, tzinfo=UTC)


@pytest.fixture
def s3() -> MemoryS3:
    made = MemoryS3()
    for key, document in STORED["ledger"].items():
        made.objects[BUCKET, f"ledger/{key}"] = json.dumps(document).encode()
    return made


@pytest.fixture
def ledger(s3: MemoryS3) -> Ledger:
    return Ledger(s3.as_client(), f"s3://{BUCKET}/ledger", STREAM)


@pytest.fixture
def history(s3: MemoryS3) -> History:
    return History(s3.as_client(), f"s3://{BUCKET}/ledger", STREAM)


@pytest.fixture
def table() -> Table:
    metadata = TableMetadataUtil.parse_obj(STORED["tables"][TABLE]["metadata"])
    return Table(tuple(TABLE.split(".")), metadata, "", cast("FileIO", None), cast("Any", None))


class Lake:
    """A role's catalog with the table, which no change has touched."""

    def __init__(self, table: Table) -> None:
        self.found = table

    def position(self, name: str) -> Any:
        return position(self.found)

    def table_uuid(self, name: str) -> str:
        return str(self.found.metadata.table_uuid)


def test_the_snapshots_say_where_the_stream_is(table: Table) -> None:
    found = position(table)
    assert found is not None
    assert (found.epoch, dict(found.ends), found.records) == (1, ENDS, ROWS)
    (newest, *_) = commits.ancestors(table)
    part = StreamPart.of(commits.summary_of(newest))
    assert (part.ends, part.unrecorded) == (ENDS, 1)
    assert StreamPart.of(part.properties()) == part


def test_the_batches_are_listed(table: Table, ledger: Ledger) -> None:
    batches = BatchLog(table, ledger).on_main.values()
    assert sum(batch.ranges.count for batch in batches) == ROWS
    assert [batch.batch_id for batch in batches] == [2, 1]


def test_a_load_s_plan_and_what_it_sent_are_read(ledger: Ledger) -> None:
    (source,) = read_all(plan_of(ledger, RUN)["sources"])
    assert source.source_id == SOURCE
    assert list(produced.pending(ledger, plan_of(ledger, RUN))) == []
    assert produced.offsets_of_all(produced.of_run(ledger, RUN)) == OffsetRanges.from_ends({}, ENDS)


def test_its_proof_and_audit_are_found(ledger: Ledger) -> None:
    _, proof = run_documents.newest(ledger, RUN, "proof") or pytest.fail("no proof")
    assert (proof["published"], proof["gaps"], proof["duplicates"]) == (ROWS, 0, 0)
    assert {name for _, name in run_documents.names(ledger, RUN)} == {
        "audit", "baseline", "plan", "produced", "proof",
    }  # fmt: skip


def test_its_source_is_not_loaded_again(ledger: Ledger, table: Table) -> None:
    verified = VerifiedSources(ledger, cast("Any", Lake(table)), TABLE)
    verified.reverted = frozenset()
    assert verified.among([SOURCE])[0] == {SOURCE}
    (key,) = ledger.keys("objects/")
    number, (content,) = newest_contents(ledger, str(verified.incarnation), key.split("/")[2])
    assert (number, content.source_id) == (1, SOURCE)


def test_its_history_is_read(history: History) -> None:
    newest = history.latest("health") or pytest.fail("no health")
    assert (newest["health"], newest["before"]) == ("healthy", "idle")
    found = history.restart_history(NOW, Supervision())
    assert (len(found.restarts), found.suspended, found.recorded) == (1, None, newest)
    assert history.maintained_at(NOW) == datetime(2026, 11, 26, 9, 19, 43, 770_864, tzinfo=UTC)


def test_every_key_has_a_reader() -> None:
    """A kind of key that no function of today knows would be lost."""
    for key in (key.removeprefix(f"{STREAM}/") for key in STORED["ledger"]):
        room = key.split("/")[0]
        known = {
            "history": lambda key: keys.moment_of(key) is not None,
            "objects": lambda key: keys.contents_number(key) == 1,
            "runs": lambda key: key in {keys.run_key(RUN, name) for name in RUN_DOCUMENTS},
            "sources": lambda key: key in (keys.planned_key(SOURCE), keys.produced_key(SOURCE)),
            "tables": lambda key: (keys.table_of(key) or "")[0] == TABLE,
            "verified": lambda key: keys.verified_of(key) == (SOURCE, ROWS, ""),
        }
        assert known[room](key), key


RUN_DOCUMENTS = ("audit", "baseline", "plan", "produced", "proof")
