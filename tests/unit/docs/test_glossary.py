"""Names that gave way to the field's own words do not come back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

REPO = Path(__file__).resolve().parents[3]
FOLDERS = ("dags", "plugins", "spark_jobs", "local", "bench")
# Old name -> the one in its place.
RENAMED = {
    "AnnounceOperator": "EmitAssetEventOperator",
    "CheckSinksOperator": "ReconcileSinksOperator",
    "DamagedObject": "CorruptObject",
    "Diagnosis": "HealthReport",
    "EventProof": "EventReconciliation",
    "LandedSensor": "PublishedSensor",
    "LandedTrigger": "PublishedTrigger",
    "OtherRows": "RowsDiffer",
    "PartOperator": "ComponentOperator",
    "QueriesOwner": "QueryStateWriter",
    "RangeSet": "OffsetRanges",
    "ReadBack": "OffsetReader",
    "Rehearsal": "StagedRewrite",
    "RowProof": "RowReconciliation",
    "SchemaConflict": "IncompatibleSchema",
    "Superseded": "Fenced",
    "TableOwner": "WriterLease",
    "Trickle": "TrafficGenerator",
    "Unproved": "VerificationFailed",
    "Verdict": "Health",
    "facts_of": "sluice_properties",
    "refuse_if_superseded": "raise_if_fenced",
    "take_over": "acquire",
}
OLD = re.compile(rf"\b(?:{'|'.join(RENAMED)})\b")


def sources() -> Iterable[Path]:
    for folder in FOLDERS:
        yield from sorted((REPO / folder).rglob("*.py"))


def test_no_old_name_comes_back() -> None:
    found = {
        str(path.relative_to(REPO)): names
        for path in sources()
        if (names := {name: RENAMED[name] for name in OLD.findall(path.read_text())})
    }
    assert not found, "file -> old name -> the name to use"
