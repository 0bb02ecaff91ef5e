"""What the audit calls an orphan, a batch's versions, and over budget."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from sluice.clients.errors import Missing, Unreachable
from sluice.clients.lake.catalog import Lake
from sluice.clients.objects import Entry
from sluice.model.spec.ledger import run_key
from sluice.model.verification.storage import PrefixUsage
from sluice.operators.load import audit
from sluice.operators.load.audit import AuditOperator, find_unreferenced, metadata_files
from sluice.operators.load.inventory import Inventory, folder, overwritten
from tests.support import lake as lakes
from tests.support.raising import raising
from tests.support.steps import ledger

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_an_unreferenced_file_older_than_the_newest_commit_is_an_orphan() -> None:
    data = {
        "old": NOW - timedelta(minutes=1),
        "new": NOW + timedelta(seconds=1),
        "known": NOW - timedelta(days=1),
    }
    found = find_unreferenced(data, {"known"}, NOW)
    assert (found.orphans, found.too_recent) == (["old"], ["new"])
    assert find_unreferenced(data, {"known"}, None).orphans == []


def test_metadata_files_belong_to_the_commit_before_them() -> None:
    log = [100, 110, 200, 210, 300]
    assert metadata_files(log, 100, 200) == 2
    assert metadata_files(log, 200, 300) == 2
    assert metadata_files(log, 300, None) == 1
    assert metadata_files(log, 90, 100) is None
    assert metadata_files([], 1, None) is None


def entry(key: str, etag: str, marker: bool = False) -> Entry:
    return Entry(key, True, marker, etag, 1, NOW)


def test_only_other_content_is_an_overwrite() -> None:
    entries = [entry("a", "1"), entry("a", "1"), entry("b", "1"), entry("b", "2"), entry("b", "3")]
    assert list(overwritten([*entries, entry("c", "1"), entry("c", "", marker=True)])) == ["b"]


def test_a_folder_is_counted_and_an_unmounted_one_is_an_error(tmp_path: Path) -> None:
    assert folder(tmp_path, "s") == PrefixUsage()
    (tmp_path / "s" / "w1").mkdir(parents=True)
    (tmp_path / "s" / "w1" / "offsets").write_bytes(b"12345")
    assert folder(tmp_path, "s") == PrefixUsage(1, 1, 0, 5)
    with raising(Unreachable, tmp_path / "none"):
        folder(tmp_path / "none", "s")


def operator(lake: Lake, seen: Inventory, before: Any) -> AuditOperator:
    made = AuditOperator(task_id="audit", stream="nyc_taxi")
    kept = ledger("nyc_taxi")
    if before is not None:
        kept.put(run_key(CONTEXT["run_id"], "baseline"), before)
    made.__dict__ |= {"platform_hook": SimpleNamespace(lake=lake), "ledger": kept}
    made.__dict__["take_inventory"] = lambda: seen
    return made


CONTEXT: Any = {"run_id": "r"}
BEFORE: dict[str, Any] = {"snapshot_id": None, "counts": {}}


def test_within_budget(tmp_path: Path) -> None:
    lake = lakes.make(tmp_path)
    lakes.append(lake, [(0, 0)], lakes.summary("batch", 1, {0: 1}))
    seen = Inventory({"table data": PrefixUsage(1, 1, 0, 10)}, {}, [])
    found = operator(lake, seen, BEFORE).work(CONTEXT)
    # A data file, a manifest, a manifest list, a metadata file.
    assert (found["batches"], found["versions_per_batch"], found["orphans"]) == (1, 4, 0)
    assert found["counts"]["table data"]["added"]["versions"] == 1


def test_over_budget_names_value_and_limit(tmp_path: Path) -> None:
    lake = lakes.make(tmp_path)
    lakes.append(lake, [(0, 0)], lakes.summary("batch", 1, {0: 1}))
    seen = Inventory({"table data": PrefixUsage(1, 1, 2, 10)}, {}, ["k"])
    made = operator(lake, seen, BEFORE)
    made.__dict__["spec"] = SimpleNamespace(
        table=lakes.TABLE,
        quarantine_table=lakes.QUARANTINE,
        budget=SimpleNamespace(delete_markers=0, versions_per_batch=3),
    )
    with pytest.raises(AirflowFailException) as caught:
        made.work(CONTEXT)
    assert str(caught.value) == (
        "SLU-405 over budget: delete markers added is 2, the limit is 0; "
        "keys overwritten with other content is 1, the limit is 0; "
        "versions of the costliest batch is 4, the limit is 3"
    )


def test_without_before_there_is_nothing_to_compare(tmp_path: Path) -> None:
    with raising(Missing, "runs/r/baseline.json", "provision_topic"):
        operator(lakes.make(tmp_path), Inventory({}, {}, []), None).work(CONTEXT)


def test_the_report_says_when_there_is_no_measure() -> None:
    text = audit.report({}, {}, [], 0, audit.UnreferencedObjects([], []))
    assert "no batch, so no versions per batch" in text
