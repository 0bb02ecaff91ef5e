"""A load's requests and bytes follow what is new, not what was loaded before."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from airflow.sdk import Asset
from pyiceberg.manifest import ManifestFile

from sluice.airflow import hook as platform_hook
from sluice.airflow.operators.load.asset_event import EmitAssetEventOperator
from sluice.clients.lake.catalog import Lake
from sluice.ledger.history import History
from sluice.ledger.keys import run_key
from sluice.ledger.known_tables import KnownTables
from tests.support.lake import QUARANTINE, TABLE
from tests.support.loads import Loads, OneBatch
from tests.support.steps import NewTables, audited, given
from tests.support.variables import Variables

OBJECTS = 200


def loaded(folder: Path, sources: int) -> Loads:
    """A prefix of which this many objects were loaded, one by one."""
    loads = Loads(folder)
    for number in range(sources):
        loads.upload(f"old-{number:04d}")
        loads.load(f"r{number}")
    return loads


def test_a_load_asks_as_much_with_many_objects_behind_it_as_with_few(tmp_path: Path) -> None:
    asked = []
    # Ten or fewer are looked up one by one.
    for sources in (11, 15):
        (folder := tmp_path / str(sources)).mkdir()
        loads = loaded(folder, sources)
        loads.upload("new")
        asked.append(loads.requests("new"))
    assert asked[0] == asked[1]
    assert asked[0].total() <= 25


def test_a_source_costs_ten_requests_in_all_tasks_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is known of its key, its content; its header, its plan; before it is sent what is known of its key
    by then, and its plan (3); its record as sent, its rows, its record as verified; of the job: none here."""
    asked = []
    for sources in (11, 15):
        (folder := tmp_path / str(sources)).mkdir()
        monkeypatch.setattr(platform_hook, "Variable", Variables())
        loads = Loads(folder)
        for number in range(sources):
            loads.upload(f"new-{number}")
        asked.append(loads.requests("r"))
    assert asked[1] - asked[0] == Counter(LIST=2 * 4, GET=4 * 4, PUT=4 * 4)


def test_a_plan_and_its_proof_are_as_long_with_many_objects_behind_them(tmp_path: Path) -> None:
    sizes = []
    for sources in (1, 11):
        (folder := tmp_path / str(sources)).mkdir()
        loads = loaded(folder, sources)
        loads.upload("new")
        returned = json.dumps([loads.produce("new"), loads.validate("new")])
        plan, proof = (
            loads.s3.objects["w", f"ledger/nyc_taxi/{run_key('new', n)}"] for n in ("plan", "proof")
        )
        sizes.append(len(returned) + len(plan) + len(proof))
    assert abs(sizes[1] - sizes[0]) < 50


def test_validation_reads_the_manifests_of_its_load_alone(tmp_path: Path) -> None:
    loads = loaded(tmp_path, 10)
    loads.upload("new")
    loads.produce("new")
    read: list[str] = []
    fetch = ManifestFile.fetch_manifest_entry

    def counting(manifest: ManifestFile, *given: object, **named: object) -> object:
        read.append(manifest.manifest_path)
        return fetch(manifest, *given, **named)  # type: ignore[arg-type]

    with patch.object(ManifestFile, "fetch_manifest_entry", counting):
        loads.validate("new")
        assert len(read) == 1
        loads.load("nothing new")
    assert len(read) == 1


@pytest.mark.parametrize(
    ("rejected", "asked"), [(True, Counter(LIST=2, GET=3)), (False, Counter(LIST=5, GET=4))]
)
def test_an_asset_event_costs_seven_requests_and_four_more_while_nothing_was_rejected(
    tmp_path: Path, rejected: bool, asked: Counter[str]
) -> None:
    """What is known of the tables, newer proofs (LISTs); the plan, the proof, the audit; the metadata of
    both tables. If nothing is known of a quarantine, the newest documents of three kinds, here one."""
    loads = Loads(tmp_path)
    if rejected:
        loads.withhold("earlier", 1)
    KnownTables(loads.lake, History(loads.s3.as_client(), "s3://w/ledger", "nyc_taxi")).note(
        TABLE, QUARANTINE
    )
    for run in ("first", "second"):
        loads.upload(run)
        loads.load(run)
    audited(loads.ledger, "second")
    # As the task's own process has them.
    lake, before = Lake(loads.lake.catalog.properties), loads.s3.requests.copy()
    tables = KnownTables(lake, History(loads.s3.as_client(), "s3://w/ledger", "nyc_taxi"))
    with patch.object(lake._io, "new_input", wraps=lake._io.new_input) as read:
        emit(loads, "second", lake=lake, tables=tables)
    assert loads.s3.requests - before == asked
    assert read.call_count == 2


def emit(loads: Loads, run: str, lake: Lake, tables: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the step returns, and its event's extra."""
    asset, event = Asset(name="nyc_taxi", uri="sluice://lake/raw/nyc_taxi"), SimpleNamespace(extra={})
    made = EmitAssetEventOperator(task_id="emit_asset_event", stream="nyc_taxi", asset=asset)
    made.__dict__ |= {"ledger": loads.ledger, "platform_hook": SimpleNamespace(lake=lake), "tables": tables}
    return made.checked_work(given(run_id=run, outlet_events={asset: event})), event.extra


def test_what_airflow_stores_of_a_load_of_many_objects_is_small(tmp_path: Path) -> None:
    """Counts, and the address of the ledger's document, which has a line per object."""
    loads = OneBatch(tmp_path)
    for number in range(OBJECTS):
        loads.upload(f"new-{number}")
    produced, proof = loads.produce("r"), loads.validate("r")
    audited(loads.ledger)
    emitted, extra = emit(loads, "r", lake=loads.lake, tables=NewTables())
    for stored in (produced, proof, emitted, extra):
        assert len(json.dumps(stored)) < 2_000
    assert (produced["sources"], proof["sources"], proof["published"]) == (OBJECTS, OBJECTS, 3 * OBJECTS)
    assert extra == proof
    addresses = {"plan": produced["plan"], "produced": produced["produced"], "proof": proof["proof"]}
    for key, address in addresses.items():
        assert address == f"s3://w/ledger/nyc_taxi/{run_key('r', key)}"
        assert len(loads.ledger.require(run_key("r", key), "a test")["sources"]) == OBJECTS
