"""The files that a table's metadata files name."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.manifest import ManifestFile

from sluice.clients.lake.referenced import ReferencedFiles
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from tests.support import lake as lakes
from tests.support.raising import raising


def test_every_file_of_every_snapshot_with_its_size_and_each_manifest_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, read = lakes.make(tmp_path), list[str]()
    fetch = ManifestFile.fetch_manifest_entry

    def counting(manifest: ManifestFile, *arguments: object, **options: object) -> object:
        read.append(manifest.manifest_path)
        return fetch(manifest, *arguments, **options)  # type: ignore[arg-type]

    states = []
    for offset in range(3):
        lakes.append(lake, [(0, offset)])
        states.append(str(lake.location(lakes.TABLE)))
    monkeypatch.setattr(ManifestFile, "fetch_manifest_entry", counting)
    reader = ReferencedFiles(lake.table(lakes.TABLE).io, lakes.TABLE)
    found = [reader.of(state)[0] for state in states]
    assert len(read) == len(set(read)) == 3
    assert set(found[0]) - set(found[2]) == {states[0]}
    folder = Path(lake.table(lakes.TABLE).location().removeprefix("file://"))
    stored = {path.as_uri(): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    # Only the metadata file that was asked for is among them.
    assert set(found[2]) == {uri for uri in stored if not uri.endswith(".metadata.json")} | {states[2]}
    assert all(size in (None, stored[uri]) for uri, size in found[2].items())
    assert sum(size is not None for size in found[2].values()) == 6, "manifests and data files"


@pytest.mark.parametrize("kind", ["*.metadata.json", "snap-*.avro", "*-m0.avro"])
def test_a_file_that_is_gone_is_named(tmp_path: Path, kind: str) -> None:
    lake = lakes.make(tmp_path)
    lakes.append(lake, [(0, 0)])
    location = str(lake.location(lakes.TABLE))
    reader = ReferencedFiles(lake.table(lakes.TABLE).io, lakes.TABLE)
    gone = sorted(Path(location.removeprefix("file://")).parent.glob(kind))[-1]
    gone.unlink()
    with raising(Refused, gone.name, lakes.TABLE, "restore_horizon_days") as caught:
        reader.of(location)
    assert caught.value.code is ErrorCode.LAKE_FILE_MISSING


def test_a_snapshot_that_no_ref_reaches_is_named_apart_and_may_be_incomplete(tmp_path: Path) -> None:
    lake = lakes.make(tmp_path)
    lakes.append(lake, [(0, 0)])
    table = lake.catalog.load_table(lakes.TABLE)
    published = table.metadata.current_snapshot_id
    assert published is not None
    table.manage_snapshots().create_branch(published, "w1_a").commit()
    table.append(table.scan().to_arrow(), branch="w1_a")
    staged = table.snapshot_by_name("w1_a")
    assert staged is not None

    def read() -> tuple[set[str], set[str]]:
        location = str(lake.location(lakes.TABLE))
        reached, others = ReferencedFiles(table.io, lakes.TABLE).of(location)
        return set(reached) - {location}, others

    on_branch, others = read()
    assert others == set()
    table.manage_snapshots().remove_branch("w1_a").commit()
    reached, others = read()
    assert (len(reached), len(others)) == (3, 3), "a list, a manifest and a data file each"
    assert reached | others == on_branch
    Path(staged.manifest_list.removeprefix("file://")).unlink()
    assert read() == (reached, set())
