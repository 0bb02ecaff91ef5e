"""What the audit finds of the objects that were written since a load began."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from sluice.airflow.failures import final_failures
from sluice.airflow.operators.load.audit import AuditOperator
from sluice.clients.lake.catalog import Lake
from sluice.clients.lake.commits import ancestors
from sluice.clients.s3.objects import Bucket, Entry
from sluice.config import streams
from sluice.config.platform_sections.catalog import Catalog
from sluice.config.platform_sections.lake import BY_CATALOG, BY_SLUICE
from sluice.config.platform_sections.lake import Lake as LakeSection
from sluice.core.tables.batches import Batch
from sluice.ledger.batch_log import Restore, document_of, published_key, restored_key
from sluice.ledger.batches import BatchLog
from sluice.ledger.documents import Ledger
from sluice.ledger.keys import run_key
from sluice.loads.written import inventory
from tests.support import lake as lakes
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising
from tests.support.steps import NewTables, given, ledger, sent

SPEC = streams.load("nyc_taxi")


class Audit:
    """A load, from its baseline on; ``odd`` changes what the bucket has of an address (its beginning)."""

    def __init__(self, folder: Path) -> None:
        self.lake: Lake = lakes.make(folder)
        self.ledger = ledger("nyc_taxi")
        self.odd: dict[str, list[Entry]] = {}
        self.asked: list[str] = []
        self.budget: Any = SPEC.budget
        self.declared = declared()
        self.writer, self.start, self.end = "w1_a", 0, 0
        # The folder of the table where its writer records batches.
        self.documents = Ledger(MemoryS3().as_client(), "s3://w/t", "batches")

    def batch(self, offset: int) -> None:
        ranges = {0: (offset, offset + 1)}
        said = lakes.summary("batch", 1, {0: offset + 1}, ranges=ranges, more={"writer": self.writer})
        lakes.append(self.lake, [(0, offset)], said)
        self.end = offset + 1

    def begin(self) -> None:
        inventory.record_before(self.lake, SPEC, self.ledger, "r")
        self.start = self.end

    def entries(self, uri: str) -> list[Entry]:
        """As the bucket has it, of one version."""
        self.asked.append(uri)
        path = Path(uri.removeprefix("file://"))
        odd = next((found for end, found in self.odd.items() if uri.endswith(end)), None)
        return [entry(size=path.stat().st_size)] if odd is None else odd

    def batch_log(self) -> BatchLog:
        return BatchLog(self.lake.table(lakes.TABLE), self.documents)

    def record(self) -> None:
        """As the writer does at every tenth batch, of those that the table keeps."""
        found = [*self.batch_log().on_main.values()][::-1]
        self.documents.put(published_key(found), document_of(found))

    def newest(self, count: int) -> list[Batch]:
        """Oldest first."""
        return [*self.batch_log().on_main.values()][count - 1 :: -1]

    def expire(self, keep: int) -> None:
        """All but the newest snapshots of ``main``, and the log of metadata files but for the newest."""
        table = self.lake.table(lakes.TABLE)
        kept = [*islice(ancestors(table), keep)]
        metadata = table.metadata.model_copy(
            update={"snapshots": kept, "metadata_log": table.metadata.metadata_log[-keep:]}
        )
        table.metadata = metadata
        self.lake.table = lambda name: table if name == lakes.TABLE else Lake.table(self.lake, name)  # type: ignore[method-assign]

    def delete_expired(self) -> int:
        """As maintenance does after the restore horizon: the manifest lists of expired snapshots."""
        every = {one.manifest_list for one in self.lake.catalog.load_table(lakes.TABLE).snapshots()}
        gone = every - {one.manifest_list for one in self.lake.table(lakes.TABLE).snapshots()}
        for uri in gone:
            Path(uri.removeprefix("file://")).unlink()
        return len(gone)

    def run(self) -> dict[str, Any]:
        if self.ledger.get(run_key("r", "produced")) is None and self.end:
            sent(self.ledger, {"source_id": "a" * 16}, {"0": [self.start, self.end]})
        made = AuditOperator(task_id="audit", stream="nyc_taxi")
        names = {
            "table": lakes.TABLE, "quarantine_table": lakes.QUARANTINE, "budget": self.budget,
            "planning_task": "produce", "topic": SimpleNamespace(managed=True),
        }  # fmt: skip
        made.__dict__ |= {
            "tables": NewTables(), "ledger": self.ledger,
            "platform_hook": SimpleNamespace(lake=self.lake, platform=SimpleNamespace(lake=self.declared)),
            "entries": self.entries, "batch_log": self.batch_log, "spec": SimpleNamespace(**names),
        }  # fmt: skip
        with final_failures():
            return made.work(given(run_id="r"))


def declared(*, is_managed: bool = False, bucket_lists: bool = True) -> LakeSection:
    """As the platform file declares the bucket."""
    maintenance = BY_CATALOG if is_managed else BY_SLUICE
    return LakeSection("s3://w", "s3://l", Catalog("rest"), maintenance, bucket_lists=bucket_lists)


def entry(etag: str = "e", size: int = 1, latest: bool = True, marker: bool = False) -> Entry:
    return Entry("k", latest, marker, etag, size, datetime(2026, 1, 1, tzinfo=UTC))


@pytest.fixture
def audit(tmp_path: Path) -> Audit:
    made = Audit(tmp_path)
    made.batch(0)
    made.begin()
    return made


def test_a_batch_within_its_budget(audit: Audit) -> None:
    audit.batch(1)
    found = audit.run()
    # A data file, a manifest, a manifest list, a metadata file.
    assert (found["batches"], found["versions_per_batch"], found["objects"]) == (1, 4, 4)
    assert len(set(audit.asked)) == 4


def test_it_looks_at_what_came_since_the_load_began_alone(audit: Audit) -> None:
    for offset in range(1, 20):
        audit.batch(offset)
    audit.ledger = ledger("nyc_taxi")
    audit.begin()
    audit.batch(20)
    assert audit.run()["objects"] == len(audit.asked) == 4


def test_without_a_batch_nothing_is_looked_at(audit: Audit) -> None:
    found = audit.run()
    assert (found["batches"], found["objects"], found["versions_per_batch"]) == (0, 0, None)


def test_over_budget_names_value_and_limit(audit: Audit, capsys: pytest.CaptureFixture[str]) -> None:
    audit.batch(1)
    audit.odd[".parquet"] = [entry("a", 1), entry("b", 1, latest=False)]
    audit.odd["metadata.json"] = [entry(marker=True)]
    audit.budget = SimpleNamespace(delete_markers=0, versions_per_batch=3)
    with pytest.raises(AirflowFailException) as caught:
        audit.run()
    assert str(caught.value) == (
        "SLU-405 over budget: delete markers added is 1, the limit is 0; "
        "objects missing or damaged is 2, the limit is 0; "
        "versions of the costliest batch is 4, the limit is 3; and 2 more"
    )
    log = capsys.readouterr().out
    assert "parquet was overwritten with other content" in log
    assert "metadata.json is missing" in log


def test_a_file_of_another_size_than_its_manifest_says_is_named(audit: Audit) -> None:
    audit.batch(1)
    audit.odd[".parquet"] = [entry(size=1)]
    with raising(AirflowFailException, "parquet has 1 bytes"):
        audit.run()


def test_markers_that_maintenance_left_are_on_other_objects() -> None:
    s3, name = MemoryS3(), "lake/raw/t/data/a.parquet"
    s3.objects = {("w", name): b"1", ("w", f"{name}.1"): b"1", ("w", "lake/raw/t/data/b.parquet"): b"1"}
    s3.markers = [("w", f"{name}.1"), ("w", "lake/raw/t/data/b.parquet")]
    made = AuditOperator(task_id="audit", stream="nyc_taxi")
    made.__dict__["platform_hook"] = SimpleNamespace(
        bucket=lambda bucket: Bucket(s3.as_client(), bucket), platform=SimpleNamespace(lake=declared())
    )
    assert [(found.key, found.is_delete_marker) for found in made.entries(f"s3://w/{name}")] == [
        (name, False)
    ]


def test_without_a_baseline_there_is_nothing_to_compare(tmp_path: Path) -> None:
    with raising(AirflowFailException, "runs/r/baseline.json", "provision_topic"):
        Audit(tmp_path).run()


def test_a_long_load_is_measured_by_the_recorded_batches(audit: Audit) -> None:
    """At a trigger of five seconds the table keeps the metadata files of a minute."""
    audit.batch(1)
    with audit.lake.catalog.load_table(lakes.TABLE).transaction() as transaction:
        # Versions that no other batch has: the costliest one is not among those that are kept.
        transaction.set_properties({"a": "b"})
    for offset in range(2, 12):
        audit.batch(offset)
    audit.record()
    for offset in range(12, 16):
        audit.batch(offset)
    audit.expire(4)
    found = audit.run()
    assert (found["batches"], found["versions_per_batch"]) == (15, 5)
    audit.budget = SimpleNamespace(delete_markers=0, versions_per_batch=4)
    with raising(AirflowFailException, "versions of the costliest batch is 5, the limit is 4"):
        audit.run()


def test_a_batch_whose_cost_is_not_known_is_not_within_its_budget(audit: Audit) -> None:
    for offset in range(1, 12):
        audit.batch(offset)
    audit.expire(4)
    text = "records in batches whose cost is not known is 7, the limit is 0"
    with raising(AirflowFailException, "SLU-405", text, "0=[1,8)"):
        audit.run()


def test_records_that_no_batch_names_are_not_within_their_budget(audit: Audit) -> None:
    audit.batch(1)
    sent(audit.ledger, {"source_id": "a" * 16}, {"0": [1, 3]})
    with raising(AirflowFailException, "whose cost is not known is 1", "0=[2,3)"):
        audit.run()


def test_a_failover_in_a_long_load_hides_no_object(audit: Audit) -> None:
    """The snapshot from before it has expired, and another writer publishes."""
    before = {*audit.lake.table(lakes.TABLE).inspect.files()["file_path"].to_pylist()}
    audit.batch(1)
    first = {*audit.lake.table(lakes.TABLE).inspect.files()["file_path"].to_pylist()} - before
    audit.writer = "w2_b"
    for offset in range(2, 6):
        audit.batch(offset)
    audit.record()
    audit.expire(2)
    audit.run()
    assert {one for one in audit.asked if one.endswith(".parquet")} >= first
    assert len([one for one in audit.asked if one.endswith(".parquet")]) == 5


def test_a_catalog_that_was_restored_in_a_load_is_named(audit: Audit) -> None:
    audit.writer = "w2_b"
    for offset in range(1, 6):
        audit.batch(offset)
    audit.record()
    restore = Restore(datetime.now(UTC) + timedelta(seconds=1), datetime.now(UTC) - timedelta(hours=1))
    audit.documents.put(restored_key(restore, "w2_b"), {})
    audit.expire(2)
    with raising(AirflowFailException, "SLU-405", "not all known is 1"):
        audit.run()


def test_an_old_load_whose_audit_passed_is_cleared(audit: Audit) -> None:
    """The manifest lists of its batches were deleted since; what they wrote was measured."""
    for offset in range(1, 12):
        audit.batch(offset)
    audit.record()
    first = audit.run()
    audit.expire(2)
    assert audit.delete_expired()
    again = audit.run()
    assert (first["batches"], again["batches"]) == (11, 11)
    assert first["versions_per_batch"] == again["versions_per_batch"] == 4
    audit.budget = SimpleNamespace(delete_markers=0, versions_per_batch=3)
    with raising(AirflowFailException, "versions of the costliest batch is 4, the limit is 3"):
        audit.run()


def test_a_batch_that_came_after_the_audit_that_passed_is_measured(audit: Audit) -> None:
    """As after a restored catalog, when records are read again."""
    audit.batch(1)
    audit.run()
    for offset in range(2, 12):
        audit.batch(offset)
    audit.ledger.client.objects.pop(("w", "ledger/nyc_taxi/runs/r/produced.json"))  # type: ignore[attr-defined]
    sent(audit.ledger, {"source_id": "a" * 16}, {"0": [1, 12]})
    audit.record()
    audit.expire(2)
    audit.delete_expired()
    with raising(AirflowFailException, "SLU-405", "whose cost is not known is 8", "0=[2,10)"):
        audit.run()


def test_a_load_that_no_audit_measured_in_time_says_so(audit: Audit) -> None:
    for offset in range(1, 12):
        audit.batch(offset)
    audit.record()
    audit.expire(2)
    audit.delete_expired()
    with raising(AirflowFailException, "SLU-405", "0=[1,10)", "deleted", "Fix: trigger a new run"):
        audit.run()


def test_a_file_of_a_kept_snapshot_that_is_gone_is_no_expired_one(audit: Audit) -> None:
    for offset in range(1, 4):
        audit.batch(offset)
    audit.run()
    older = next(islice(ancestors(audit.lake.table(lakes.TABLE)), 1, 2))
    Path(older.manifest_list.removeprefix("file://")).unlink()
    with raising(AirflowFailException, f"manifest list of batch {older.snapshot_id}"):
        audit.run()


def test_a_late_audit_lists_what_came_until_its_load_was_verified(
    audit: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inventory, "CLOCK_SLACK", timedelta(0))
    for offset in range(1, 11):
        audit.batch(offset)
    audit.record()
    audit.ledger.put(run_key("r", "proof"), {"at": datetime.now(UTC).isoformat()})
    sent(audit.ledger, {"source_id": "a" * 16}, {"0": [1, 11]})
    for offset in range(11, 31):
        audit.batch(offset)
        if offset % 10 == 0:
            audit.documents.put(published_key(found := audit.newest(10)), document_of(found))
    audit.expire(5)
    memory: MemoryS3 = audit.documents.client  # type: ignore[assignment]
    memory.requests.clear()
    assert audit.run()["batches"] == 10
    # Those of restores and of batches; a document of batches.
    assert (memory.requests["LIST"], memory.requests["GET"]) == (2, 1)


def test_of_a_bucket_that_is_not_listed_the_audit_says_what_it_cannot_show(
    audit: Audit, capsys: pytest.CaptureFixture[str]
) -> None:
    audit.declared = declared(is_managed=True, bucket_lists=False)
    audit.batch(1)
    found = audit.run()
    line, metadata = found["not_shown"]
    assert "not listed by declaration" in line
    assert "earlier metadata files" in metadata
    assert found["delete_markers"] is None, "not 0, as if it had looked"
    log = capsys.readouterr().out
    assert line in log
    assert "delete markers added" not in log
    assert (found["batches"], found["versions_per_batch"], found["objects"]) == (1, 4, 4)


def test_of_a_managed_bucket_that_is_listed_delete_markers_are_counted(
    audit: Audit, capsys: pytest.CaptureFixture[str]
) -> None:
    audit.declared = declared(is_managed=True)
    audit.batch(1)
    found = audit.run()
    (line,) = found["not_shown"]
    assert 'maintenance = "catalog"): earlier metadata files, which the catalog may remove' in line
    assert found["delete_markers"] == 0
    assert "delete markers added" in capsys.readouterr().out
    audit.odd[".parquet"] = [entry(), entry(marker=True)]
    with raising(AirflowFailException, "delete markers added is 1"):
        audit.run()


def test_of_a_bucket_that_is_not_listed_a_missing_file_is_found(audit: Audit) -> None:
    audit.declared = declared(is_managed=True, bucket_lists=False)
    audit.batch(1)
    audit.odd[".parquet"] = []
    with raising(AirflowFailException, "objects missing or damaged is 1", "parquet is missing"):
        audit.run()


def test_an_object_of_a_bucket_that_is_not_listed_is_asked_for_alone() -> None:
    s3 = MemoryS3()
    s3.objects = {("w", "t/a.parquet"): b"123"}
    made = AuditOperator(task_id="audit", stream="nyc_taxi")
    made.__dict__["platform_hook"] = SimpleNamespace(
        bucket=lambda bucket: Bucket(s3.as_client(), bucket),
        platform=SimpleNamespace(lake=declared(is_managed=True, bucket_lists=False)),
    )
    (found,) = made.entries("s3://w/t/a.parquet")
    assert (found.size, found.is_latest) == (3, True)
    assert made.entries("s3://w/t/b.parquet") == []
    assert s3.requests == {"HEAD": 2}
