"""A load's requests and bytes follow what is new, not what was loaded before."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from unittest.mock import patch

from pyiceberg.manifest import ManifestFile

from sluice.model.spec.ledger import run_key
from tests.support.loads import Loads


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
    for sources in (11, 22):
        (folder := tmp_path / str(sources)).mkdir()
        loads = loaded(folder, sources)
        loads.upload("new")
        asked.append(loads.requests("new"))
    assert asked[0] == asked[1]
    assert asked[0].total() <= 22


def test_a_source_costs_five_requests_in_all_tasks_together(tmp_path: Path) -> None:
    """Its header, its plan, its record as sent, its rows, its record as verified; of the job: none here."""
    asked = []
    for sources in (11, 22):
        (folder := tmp_path / str(sources)).mkdir()
        loads = Loads(folder)
        for number in range(sources):
            loads.upload(f"new-{number}")
        asked.append(loads.requests("r"))
    assert asked[1] - asked[0] == Counter(GET=2 * 11, PUT=3 * 11)


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
