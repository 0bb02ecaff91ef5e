"""What a catalog must accept and refuse: commits of a scratch table, by names of snapshots and refs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# Another one with other promises: what was found before counts no more.
VERSION = 2
MAIN = "main"
# The scratch table's schema, and the last id of a column in it.
SCHEMA_ID, LAST_COLUMN = 0, 1
# The branches of a writer, and of the next one.
FIRST, SECOND = "w1", "w2"
# Ref -> the name of its snapshot.
Refs = Mapping[str, str]


@dataclass(frozen=True)
class Added:
    """A snapshot by its name, with its parent's and its sequence number."""

    name: str
    parent: str | None
    sequence: int


@dataclass(frozen=True)
class Commit:
    """What one request changes, and what it requires."""

    adds: tuple[Added, ...] = ()
    """New snapshots."""
    moves: Refs = field(default_factory=dict)
    """Branches that are set, existing or not."""
    removes: tuple[str, ...] = ()
    """Branches that are removed."""
    expires: tuple[str, ...] = ()
    """Snapshots that are removed."""
    expects: Mapping[str, str | None] = field(default_factory=dict)
    """Ref -> the snapshot where it must be; None: there must be no such ref."""
    schema: int | None = None
    """The current schema's id, if it is required."""
    last_column: int | None = None
    """The last id that a column got, if it is required."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Properties of the table that are set."""


@dataclass(frozen=True)
class Step:
    """A commit that a catalog must accept (`is_valid`) or refuse: else it breaks the promise."""

    promise: str
    text: str
    commit: Commit
    is_valid: bool


@dataclass(frozen=True)
class Race:
    """Two commits that are made at once, of which each makes the other invalid."""

    promise: str
    text: str
    one: Commit
    other: Commit


def after(refs: Refs, commit: Commit) -> dict[str, str]:
    """The refs when the commit is made."""
    return {name: at for name, at in refs.items() if name not in commit.removes} | dict(commit.moves)


def is_met(refs: Refs, commit: Commit) -> bool:
    """Whether every ref, and the schema, is where the commit expects it."""
    is_schema = commit.schema in (None, SCHEMA_ID) and commit.last_column in (None, LAST_COLUMN)
    return is_schema and all(refs.get(name) == at for name, at in commit.expects.items())


# One after the other, on a new table.
STEPS = (
    Step(
        "several-refs-at-once",
        "one commit adds a snapshot and sets main and a branch",
        # PyIceberg refuses to expect anything of another ref of a table without snapshots.
        Commit((Added("a", None, 1),), {MAIN: "a", FIRST: "a"}, expects={MAIN: None}),
        True,
    ),
    Step(
        "append-to-branch",
        "a commit to a branch moves this branch and no other",
        Commit((Added("b", "a", 2),), {FIRST: "b"}, expects={FIRST: "a"}),
        True,
    ),
    Step(
        "publish",
        "main is moved to a branch's snapshot if both are where they were",
        Commit(moves={MAIN: "b"}, expects={MAIN: "a", FIRST: "b"}),
        True,
    ),
    Step(
        "stale-publish",
        "main is not moved by who expects it where it was before",
        Commit(moves={MAIN: "a"}, expects={MAIN: "a"}),
        False,
    ),
    Step(
        "untouched-ref",
        "what a commit expects of a ref that it does not change is required",
        Commit((Added("c", "b", 3),), {FIRST: "c"}, expects={MAIN: "a", FIRST: "b"}),
        False,
    ),
    Step(
        "second-writer",
        "one commit adds a snapshot, sets main and a branch, and removes another branch",
        Commit(
            *((Added("d", "b", 3),), {MAIN: "d", SECOND: "d"}, (FIRST,)),
            expects={MAIN: "b", SECOND: None, FIRST: "b"},
        ),
        True,
    ),
    Step(
        "removed-branch",
        "a removed branch takes no commit of who expects it",
        Commit((Added("e", "b", 4),), {FIRST: "e"}, expects={FIRST: "b"}),
        False,
    ),
    Step(
        "publish-with-expiry",
        "one commit moves main and removes a snapshot",
        Commit((Added("f", "d", 4),), {MAIN: "f", SECOND: "f"}, (), ("a",), {MAIN: "d", SECOND: "d"}),
        True,
    ),
    Step(
        "sequence-number",
        "a snapshot with an old sequence number is refused",
        Commit((Added("g", "f", 1),), {SECOND: "g"}, expects={SECOND: "f"}),
        False,
    ),
    Step(
        "last-sequence-number",
        "a snapshot with the last sequence number is refused: another branch has it",
        Commit((Added("h", "f", 4),), {SECOND: "h"}, expects={SECOND: "f"}),
        False,
    ),
    Step(
        "missing-ref",
        "main takes no first commit of who expects that there is none",
        Commit((Added("i", "f", 5),), {MAIN: "i"}, expects={MAIN: None}),
        False,
    ),
    Step(
        "current-schema",
        "the schema that a commit expects is required",
        Commit((Added("j", "f", 5),), {SECOND: "j"}, expects={SECOND: "f"}, schema=SCHEMA_ID + 1),
        False,
    ),
    Step(
        "last-column",
        "the last column id that a commit expects is required",
        Commit((Added("k", "f", 5),), {SECOND: "k"}, expects={SECOND: "f"}, last_column=LAST_COLUMN + 1),
        False,
    ),
    Step(
        "properties-with-refs",
        "one commit adds a snapshot, sets main and a branch, and sets a property of the table",
        Commit(
            *((Added("l", "f", 5),), {MAIN: "l", SECOND: "l"}),
            expects={MAIN: "f", SECOND: "f"},
            schema=SCHEMA_ID,
            last_column=LAST_COLUMN,
            properties={"sluice.tried": "yes"},
        ),
        True,
    ),
)
# Where each race begins: main at `a`, the branch one ahead, and one more snapshot for who comes between.
RACE_SNAPSHOTS = (Added("a", None, 1), Added("b", "a", 2), Added("c", "b", 3))
RACE_REFS: Refs = {MAIN: "a", FIRST: "b"}
_PUBLISH = Commit(moves={MAIN: "b"}, expects={MAIN: "a", FIRST: "b"})
RACES = (
    Race(
        "branch-removed-meanwhile",
        "main is not moved when the writer's branch is removed while that commit is under way",
        _PUBLISH,
        Commit(removes=(FIRST,), expects={MAIN: "a", FIRST: "b"}),
    ),
    Race(
        "branch-moved-meanwhile",
        "main is not moved when the writer's branch moves while that commit is under way",
        _PUBLISH,
        Commit(moves={FIRST: "c"}, expects={MAIN: "a", FIRST: "b"}),
    ),
    Race(
        "commit-meanwhile",
        "main is moved by one of two commits that expect the same of it",
        _PUBLISH,
        Commit(moves={MAIN: "c"}, expects={MAIN: "a"}),
    ),
)
# A catalog that breaks one of these keeps it in another trial by chance.
CHANCES = frozenset(race.promise for race in RACES)
