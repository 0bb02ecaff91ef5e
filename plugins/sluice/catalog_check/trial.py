"""Makes the commits of ``promises`` on a scratch table, through PyIceberg, and says what came of each."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Barrier

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import BadRequestError, CommitFailedException, ValidationException
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from sluice.catalog_check.promises import (
    RACE_REFS,
    RACE_SNAPSHOTS,
    RACES,
    SCHEMA_ID,
    STEPS,
    Added,
    Commit,
    Race,
    Refs,
    Step,
    after,
)
from sluice.clients.catalogs.commits import commit as commit_to
from sluice.clients.catalogs.commits import expected_refs, expected_schema
from sluice.clients.catalogs.errors import asking
from sluice.core.json_record import Document
from sluice.core.messages import quoted

SCHEMA = Schema(NestedField(1, "id", LongType(), required=True))
# Each is a chance that two commits meet.
ROUNDS = 10
ACCEPTED = "accepted"
# Refs, names of snapshots, and properties.
State = tuple[dict[str, str], set[str], dict[str, str]]
_PROPERTIES = {name for step in STEPS for name in step.commit.properties}
# By the server (409, 400), or by the client, which looks at what it loaded.
_REFUSALS = (CommitFailedException, BadRequestError, ValidationException, ValueError)


@dataclass(frozen=True)
class Finding:
    """What was found of one promise."""

    promise: str
    """Its name, as `untouched-ref`."""
    text: str
    """What the catalog promises."""
    expected: str
    """The answer, the refs and the snapshots, or for two commits at once which of them."""
    found: str
    """The same, as it was."""
    is_kept: bool
    """Whether what was found is what was expected."""


def findings(catalog: Catalog, other: Catalog, name: str, rounds: int = ROUNDS) -> Iterator[Finding]:
    """Each promise, up to the first that is not kept: what follows relies on it.

    ``other``: the same catalog, as another client has it. ``name``: of tables that are made, and dropped
    again, in a namespace that exists. Raises the errors of :func:`sluice.clients.catalogs.errors.asking`.
    """
    with asking(f"scratch table {name}"):
        for found in _findings(catalog, other, name, rounds):
            yield found
            if not found.is_kept:
                return


def _findings(catalog: Catalog, other: Catalog, name: str, rounds: int) -> Iterator[Finding]:
    # Another name for each: a catalog may keep what was dropped.
    for part, tried in (("steps", _steps), ("races", partial(_races, rounds=rounds))):
        table = f"{name}_{part}_{uuid.uuid4().hex[:8]}"
        scratch = ScratchTable(catalog.create_table(table, SCHEMA), catalog, other)
        try:
            yield from tried(scratch)
        finally:
            catalog.drop_table(table)


class ScratchTable:
    """A table of two clients, whose snapshots have names here and no file."""

    def __init__(self, table: Table, catalog: Catalog, other: Catalog) -> None:
        self._table, self._clients = table, (catalog, other)
        self._ids: dict[str, int] = {}

    def commit(self, commit: Commit, client: int = 0) -> str:
        """`accepted`, or why it was refused."""
        table = str(self._table.metadata.table_uuid)
        requirements: list[Document] = [{"type": "assert-table-uuid", "uuid": table}]
        requirements += expected_refs(
            {ref: self._ids[at] if at else None for ref, at in commit.expects.items()}
        )
        requirements += expected_schema(commit.schema, commit.last_column)
        updates: list[Document] = [
            {"action": "add-snapshot", "snapshot": self._snapshot(one)} for one in commit.adds
        ]
        updates += [
            {"action": "set-snapshot-ref", "ref-name": ref, "type": "branch", "snapshot-id": self._ids[at]}
            for ref, at in commit.moves.items()
        ]
        updates += [{"action": "remove-snapshot-ref", "ref-name": ref} for ref in commit.removes]
        if commit.expires:
            expired = [self._ids[one] for one in commit.expires]
            updates.append({"action": "remove-snapshots", "snapshot-ids": expired})
        if commit.properties:
            updates.append({"action": "set-properties", "updates": dict(commit.properties)})
        try:
            commit_to(self._clients[client], ".".join(self._table.name()), requirements, updates)
        except _REFUSALS as error:
            return f"refused ({quoted(' '.join(str(error).split()))})"
        return ACCEPTED

    def _snapshot(self, added: Added) -> Document:
        number = self._ids.setdefault(added.name, uuid.uuid4().int >> 66)
        made: Document = {
            "snapshot-id": number,
            "sequence-number": added.sequence,
            "timestamp-ms": int(time.time() * 1000),
            "manifest-list": f"{self._table.metadata.location}/metadata/snap-{number}.avro",
            "summary": {"operation": "append"},
            "schema-id": SCHEMA_ID,
        }
        return made if added.parent is None else made | {"parent-snapshot-id": self._ids[added.parent]}

    def state(self) -> State:
        """Its refs, the names of its snapshots, and those of its properties that were tried."""
        names = {number: name for name, number in self._ids.items()}
        metadata = self._clients[0].load_table(self._table.name()).metadata
        # A catalog that rewrites by itself has snapshots of its own.
        refs = {ref: names.get(at.snapshot_id, str(at.snapshot_id)) for ref, at in metadata.refs.items()}
        snapshots = {names.get(one.snapshot_id, str(one.snapshot_id)) for one in metadata.snapshots}
        return refs, snapshots, {k: v for k, v in metadata.properties.items() if k in _PROPERTIES}


def _steps(scratch: ScratchTable) -> Iterator[Finding]:
    refs: dict[str, str] = {}
    snapshots: set[str] = set()
    properties: dict[str, str] = {}
    for step in STEPS:
        if step.is_valid:
            refs = after(refs, step.commit)
            snapshots = (snapshots | {one.name for one in step.commit.adds}) - set(step.commit.expires)
            properties = properties | dict(step.commit.properties)
        # Who must be refused is another client than who was there before.
        answer = scratch.commit(step.commit, client=0 if step.is_valid else 1)
        found = scratch.state()
        is_kept = (answer == ACCEPTED) is step.is_valid and found == (refs, snapshots, properties)
        expected = _said(ACCEPTED if step.is_valid else "refused", refs, snapshots, properties)
        yield _finding(step, expected, _said(answer, *found), is_kept)


def _races(scratch: ScratchTable, rounds: int) -> Iterator[Finding]:
    scratch.commit(Commit(RACE_SNAPSHOTS, RACE_REFS))
    for race in RACES:
        found, is_kept = _race(race, scratch, rounds)
        yield _finding(race, "one of the two is accepted, and the refs are as it sets them", found, is_kept)


def _race(race: Race, scratch: ScratchTable, rounds: int) -> tuple[str, bool]:
    commits, won = (race.one, race.other), 0
    for _ in range(rounds):
        if (answer := scratch.commit(Commit(moves=RACE_REFS))) != ACCEPTED:
            return f"the refs could not be set back: {answer}", False
        answers = _at_once(scratch, commits)
        accepted = [commit for commit, answer in zip(commits, answers, strict=True) if answer == ACCEPTED]
        refs, snapshots, properties = scratch.state()
        if len(accepted) > 1 or refs != (after(RACE_REFS, accepted[0]) if accepted else RACE_REFS):
            return _said(" and ".join(answers), refs, snapshots, properties), False
        won += len(accepted)
    return f"so in {won} of {rounds} rounds, and none of the two in the others", won > 0


def _at_once(scratch: ScratchTable, commits: tuple[Commit, Commit]) -> list[str]:
    ready = Barrier(len(commits))

    def make(client: int) -> str:
        ready.wait()
        return scratch.commit(commits[client], client)

    with ThreadPoolExecutor(len(commits)) as pool:
        return list(pool.map(make, range(len(commits))))


def _said(answer: str, refs: Refs, snapshots: set[str], properties: Mapping[str, str]) -> str:
    places = ", ".join(f"{ref} at {at}" for ref, at in sorted(refs.items()))
    said = f"{answer}; refs: {places or 'none'}; snapshots: {', '.join(sorted(snapshots)) or 'none'}"
    named = ", ".join(f"{name}={value}" for name, value in sorted(properties.items()))
    return f"{said}; properties: {named}" if named else said


def _finding(tried: Step | Race, expected: str, found: str, is_kept: bool) -> Finding:
    return Finding(tried.promise, tried.text, expected, found, is_kept)
