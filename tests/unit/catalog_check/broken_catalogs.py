"""Catalogs that break one promise each, as servers do that were met or could be: on SQLite."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetSnapshotRefUpdate,
)

# Until another client has loaded what this one has.
PAUSE_SECONDS = 0.05
Required = tuple[Any, ...]
Updates = tuple[Any, ...]


def opened(folder: Path, kind: type[SqlCatalog] = SqlCatalog) -> SqlCatalog:
    return kind("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")


def _sets(updates: Updates) -> set[str]:
    """The refs that a commit changes."""
    kinds = (SetSnapshotRefUpdate, RemoveSnapshotRefUpdate)
    return {one.ref_name for one in updates if isinstance(one, kinds)}


def _moves_main(updates: Updates) -> bool:
    return any(isinstance(one, SetSnapshotRefUpdate) and one.ref_name == "main" for one in updates)


class Broken(SqlCatalog):
    """Changes what it was asked before it does it."""

    def changed(self, table: Table, required: Required, updates: Updates) -> tuple[Required, Updates]:
        raise NotImplementedError

    def commit_table(self, table: Table, requirements: Required, updates: Updates) -> Any:
        return super().commit_table(table, *self.changed(table, requirements, updates))


class RequiresNothing(Broken):
    def changed(self, table: Table, required: Required, updates: Updates) -> tuple[Required, Updates]:
        return (), updates


class RequiresOnlyWhatItSets(Broken):
    def changed(self, table: Table, required: Required, updates: Updates) -> tuple[Required, Updates]:
        sets = _sets(updates)
        return tuple(one for one in required if getattr(one, "ref", None) in {None, *sets}), updates


class MovesMainWithABranch(Broken):
    def changed(self, table: Table, required: Required, updates: Updates) -> tuple[Required, Updates]:
        added = [one for one in updates if isinstance(one, SetSnapshotRefUpdate)][:1]
        return required, (*updates, *(one.model_copy(update={"ref_name": "main"}) for one in added))


class SetsOneRefOnly(Broken):
    def changed(self, table: Table, required: Required, updates: Updates) -> tuple[Required, Updates]:
        further = [one for one in updates if isinstance(one, SetSnapshotRefUpdate)][1:]
        return required, tuple(one for one in updates if one not in further)


class MovesMainOnlyWithSnapshots(Broken):
    def changed(self, table: Table, required: Required, updates: Updates) -> tuple[Required, Updates]:
        return required, updates if any(isinstance(one, AddSnapshotUpdate) for one in updates) else ()


class RemovesNoRef(Broken):
    def changed(self, table: Table, required: Required, updates: Updates) -> tuple[Required, Updates]:
        return required, tuple(one for one in updates if not isinstance(one, RemoveSnapshotRefUpdate))


class MakesARemovedBranchAgain(Broken):
    def changed(self, table: Table, required: Required, updates: Updates) -> tuple[Required, Updates]:
        there = self.load_table(table.name()).metadata.refs
        return tuple(one for one in required if getattr(one, "ref", "main") in {"main", *there}), updates


class ExpiresNothing(Broken):
    def changed(self, table: Table, required: Required, updates: Updates) -> tuple[Required, Updates]:
        return required, tuple(one for one in updates if not isinstance(one, RemoveSnapshotsUpdate))


class NumbersByItself(Broken):
    def changed(self, table: Table, required: Required, updates: Updates) -> tuple[Required, Updates]:
        last = max((one.sequence_number or 0 for one in self.load_table(table.name()).snapshots()), default=0)
        added = [
            one.model_copy(update={"snapshot": one.snapshot.model_copy(update={"sequence_number": last + 1})})
            for one in updates
            if isinstance(one, AddSnapshotUpdate)
        ]
        return required, (*added, *(one for one in updates if not isinstance(one, AddSnapshotUpdate)))


class ChecksEarly(SqlCatalog):
    """Looks at what is required, and later makes the commit by a part of it."""

    def late(self, required: Required, updates: Updates) -> Required:
        raise NotImplementedError

    def commit_table(self, table: Table, requirements: Required, updates: Updates) -> Any:
        base = self.load_table(table.name()).metadata
        for one in requirements:
            one.validate(base)
        time.sleep(PAUSE_SECONDS)
        while True:
            try:
                return super().commit_table(table, self.late(requirements, updates), updates)
            except CommitFailedException as error:
                # As a server that tries again when another commit came between.
                if "another process" not in str(error):
                    raise


class ForgetsRefsThatItDoesNotSet(ChecksEarly):
    def late(self, required: Required, updates: Updates) -> Required:
        return tuple(one for one in required if getattr(one, "ref", None) in {None, *_sets(updates)})


class LooksOnlyWhetherTheyAreThere(ChecksEarly):
    def late(self, required: Required, updates: Updates) -> Required:
        if any(isinstance(one, RemoveSnapshotRefUpdate) for one in updates):
            return required
        sets = _sets(updates)
        return tuple(
            _Exists.model_validate(one.model_dump(by_alias=True))
            if isinstance(one, AssertRefSnapshotId) and one.ref not in sets and one.snapshot_id is not None
            else one
            for one in required
        )


class _Exists(AssertRefSnapshotId):
    def validate(self, base_metadata: Any) -> None:  # type: ignore[override]
        if self.ref not in base_metadata.refs:
            raise CommitFailedException(f"{self.ref} is missing")


class LastMoveOfMainWins(ChecksEarly):
    def late(self, required: Required, updates: Updates) -> Required:
        return tuple(
            one for one in required if not (_moves_main(updates) and getattr(one, "ref", "") == "main")
        )


# The promise that each breaks.
BROKEN: dict[str, Callable[..., SqlCatalog]] = {
    "several-refs-at-once": SetsOneRefOnly,
    "append-to-branch": MovesMainWithABranch,
    "publish": MovesMainOnlyWithSnapshots,
    "stale-publish": RequiresNothing,
    "untouched-ref": RequiresOnlyWhatItSets,
    "second-writer": RemovesNoRef,
    "removed-branch": MakesARemovedBranchAgain,
    "publish-with-expiry": ExpiresNothing,
    "sequence-number": NumbersByItself,
    "branch-removed-meanwhile": ForgetsRefsThatItDoesNotSet,
    "branch-moved-meanwhile": LooksOnlyWhetherTheyAreThere,
    "commit-meanwhile": LastMoveOfMainWins,
}
