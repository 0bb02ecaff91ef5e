"""Files are read portion by portion, and one that was read is not read again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from pyiceberg.expressions import GreaterThan
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table

from sluice.clients.lake.reading import files
from sluice.clients.lake.snapshots import stored_files, table_diff
from sluice.core.offsets.counts import Counts
from sluice.ledger.documents import Ledger
from sluice.maintenance.reconciliation import portions
from sluice.maintenance.reconciliation.portions import Portions
from tests.support import lake as lakes
from tests.support.counted import listed
from tests.support.memory_s3 import MemoryS3


class Killed(Exception):
    pass


class World:
    """Six files of two rows, the last of which has an offset of the first again; portions of two files.
    ``read``: names of the files that were read."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.lake = lakes.make(folder)
        for first in (0, 2, 4, 6, 8):
            lakes.append(self.lake, [(0, first), (1, first + 1)])
        lakes.append(self.lake, [(0, 10), (0, 0)])
        self.ledger = Ledger(MemoryS3().as_client(), "s3://w/ledger", "nyc_taxi")
        self.read, self.killed_after = list[str](), 99
        self._count = table_diff.count_offsets
        patch.setattr(table_diff, "count_offsets", self._noted)
        patch.setattr(portions, "PORTION_ROWS", 4)

    def _noted(self, table: Table, data_files: Iterable[DataFile], *rows: GreaterThan) -> Counts[int]:
        named = list(data_files)
        if len(self.read) >= self.killed_after:
            raise Killed
        self.read += [one.file_path for one in named]
        return self._count(table, named, *rows)

    def files(self) -> list[DataFile]:
        return [task.file for task in files.committed_since(self.lake.table(lakes.TABLE), 0)]

    def count(
        self, data_files: list[DataFile] | None = None, scope: str = "a", **given: GreaterThan
    ) -> dict[int, list[int]]:
        table = self.lake.table(lakes.TABLE)
        self.read.clear()
        counted = Portions(self.ledger, scope).count(
            table, self.files() if data_files is None else data_files, **given
        )
        return listed(counted)


EVERY = {0: [0, 0, 2, 4, 6, 8, 10], 1: [1, 3, 5, 7, 9]}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def test_a_task_that_was_killed_goes_on_where_it_was(world: World) -> None:
    world.killed_after = 4
    with pytest.raises(Killed):
        world.count()
    first, world.killed_after = set(world.read), 99
    assert world.count() == EVERY
    assert len(world.read) == 2
    assert not first & set(world.read)
    assert world.count() == EVERY
    assert world.read == []


def test_files_that_came_since_are_read_beside_those_that_are_known(world: World) -> None:
    world.count()
    lakes.append(world.lake, [(1, 11)])
    assert world.count() == {0: EVERY[0], 1: [*EVERY[1], 11]}
    assert len(world.read) == 1


def test_a_portion_with_a_file_that_is_not_to_be_read_any_more_does_not_count(world: World) -> None:
    """The table moved: a compaction removed it."""
    world.count()
    rest = world.files()[1:]
    offsets = [offset for one in world.count(rest).values() for offset in one]
    assert len(offsets) == 10
    assert len(world.read) == 1


def test_a_file_that_was_repaired_in_place_is_read_again(world: World) -> None:
    """Its name, its size and its rows by the manifest are the same; the portions without it count."""
    whole = world.files()[0]
    path, damaged = (Path(one.file_path.removeprefix("file://")) for one in (whole, world.files()[1]))
    repaired = path.read_bytes()
    path.write_bytes(damaged.read_bytes())
    assert world.count() != EVERY
    path.write_bytes(repaired)
    assert world.count() == EVERY
    assert whole.file_path in world.read
    assert len(world.read) == 2
    assert world.count() == EVERY
    assert world.read == []


def test_what_a_store_does_not_tell_is_read_each_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_files, "states", lambda io, paths: [None for _ in paths])
    assert world.count() == EVERY
    assert world.count() == EVERY
    assert len(world.read) == 6


@pytest.mark.parametrize(
    "alter", [lambda names: {}, lambda names: dict.fromkeys(names, 1)], ids=["none", "other sizes"]
)
def test_a_record_of_other_files_does_not_count(
    world: World, alter: Callable[[dict[str, int]], dict[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.count()
    get = Ledger.get
    monkeypatch.setattr(
        Ledger, "get", lambda ledger, key: (one := get(ledger, key)) and {**one, "files": alter(one["files"])}
    )
    assert world.count() == EVERY
    assert len(world.read) == 6


def test_other_scopes_and_other_rows_are_read_by_themselves(world: World) -> None:
    world.count()
    assert world.count(scope="b") == EVERY
    assert len(world.read) == 6
    assert world.count(rows=GreaterThan(files.OFFSET, 8)) == {0: [10], 1: [9]}
    assert len(world.read) == 6


def test_a_portion_has_no_more_than_so_many_files(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portions, "PORTION_ROWS", 100)
    monkeypatch.setattr(portions, "PORTION_FILES", 3)
    world.killed_after = 3
    with pytest.raises(Killed):
        world.count()
    world.killed_after = 99
    assert world.count() == EVERY
    assert len(world.read) == 3
    assert len(list(world.ledger.keys("portions/"))) == 2


def test_few_rows_are_read_without_a_record(world: World) -> None:
    two = world.files()[:2]
    world.count(two)
    world.count(two)
    assert len(world.read) == 2
    assert list(world.ledger.keys("portions/")) == []
