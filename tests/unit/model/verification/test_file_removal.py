"""Which files may be deleted: none that a catalog restored within the horizon needs, and the rest at last."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.model.verification import file_removal
from sluice.model.verification.file_removal import (
    MAX_WRITE_AGE,
    SLACK,
    MetadataRecord,
    StoredFile,
    kind_of,
    missing,
    needed_records,
    path_of,
    removable,
)

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
HORIZON = timedelta(days=3)


@dataclass
class State:
    """A metadata file: the live data files of each of its snapshots, the newest last."""

    location: str
    snapshots: tuple[frozenset[str], ...] = (frozenset(),)

    @property
    def names(self) -> set[str]:
        return {self.location, *(file for files in self.snapshots for file in files)}


@dataclass
class World:
    """A table's bucket, catalog and records. ``past``: (from, until) in which a state was current."""

    now: datetime = BEGIN
    files: dict[str, datetime] = field(default_factory=dict)
    states: dict[str, State] = field(default_factory=dict)
    current: State = field(default_factory=lambda: State("m0"))
    since: datetime = BEGIN
    past: list[tuple[datetime, datetime, State]] = field(default_factory=list)
    records: list[MetadataRecord] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self.put(self.current)

    def put(self, state: State, at: datetime | None = None) -> None:
        self.states[state.location] = state
        self.files[state.location] = at or self.now

    def write(self, age: timedelta = timedelta(0)) -> str:
        name = f"d{next(self.numbers)}"
        self.files[name] = self.now - age
        return name

    def commit(self, snapshots: tuple[frozenset[str], ...], accepted: bool = True) -> None:
        state = State(f"m{next(self.numbers)}", snapshots)
        self.put(state)
        if accepted:
            self.become(state)

    def become(self, state: State) -> None:
        self.past.append((self.since, self.now, self.current))
        self.current, self.since = state, self.now

    def append(self, age: timedelta, accepted: bool) -> None:
        newest = self.current.snapshots[-1]
        self.commit((*self.current.snapshots, newest | {self.write(age)}), accepted)

    def rewrite(self, age: timedelta) -> None:
        """As a compaction, or a sink that replaces its results: also files of seconds ago."""
        if self.current.snapshots[-1]:
            self.commit((*self.current.snapshots, frozenset({self.write(age)})))

    def expire(self) -> None:
        self.commit(self.current.snapshots[-1:])

    def record(self) -> None:
        self.records.append(MetadataRecord(self.now, self.current.location))

    def restorable(self) -> list[State]:
        """Each state that was current at a moment of the last days, and is there."""
        return [state for _, until, state in self.past if until > self.now - HORIZON] + [self.current]

    def restore(self, number: int) -> None:
        """As docs/operating.md says: maintenance runs before anything else."""
        states = self.restorable()
        self.become(states[number % len(states)])
        self.record()

    def remove(self) -> None:
        stored = [StoredFile(name, 1, at) for name, at in self.files.items()]
        records = needed_records(self.records, self.now, HORIZON)
        needed = {name for record in records for name in self.states[record.location].names}
        for file in removable(stored, needed | self.current.names, records):
            del self.files[file.path]

    def assert_whole(self) -> None:
        for state in self.restorable():
            assert state.names <= self.files.keys(), (self.now, state)


AGES = st.timedeltas(timedelta(0), MAX_WRITE_AGE)
STEPS = st.one_of(
    st.tuples(st.just("append"), AGES, st.booleans()),
    st.tuples(st.just("rewrite"), AGES),
    st.tuples(st.just("expire")),
    st.tuples(st.just("record")),
    st.tuples(st.just("maintenance")),
    st.tuples(st.just("restore"), st.integers(0, 20)),
    st.tuples(st.just("wait"), st.integers(1, 100)),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(STEPS, max_size=60))
def test_no_state_of_the_horizon_loses_a_file_and_the_rest_goes_at_last(
    steps: list[tuple[object, ...]],
) -> None:
    world = World()
    for name, *arguments in steps:
        if name == "wait":
            world.now += HOUR * arguments[0]  # type: ignore[operator]
        elif name == "maintenance":
            world.record()
            world.remove()
        else:
            getattr(world, str(name))(*arguments)
        world.assert_whole()
    world.expire()
    for _ in range(6):
        world.now += timedelta(days=1)
        world.record()
        world.remove()
        world.assert_whole()
    assert world.files.keys() == world.current.names


def test_without_a_record_as_old_as_the_horizon_nothing_is_deleted() -> None:
    old = StoredFile("b/t/data/a.parquet", 1, BEGIN)
    now = BEGIN + timedelta(days=30)
    young = [MetadataRecord(now - HORIZON + HOUR, "m")]
    assert needed_records(young, now, HORIZON) == []
    assert removable([old], set(), []) == []
    records = [MetadataRecord(now - HORIZON, "m"), *young]
    assert needed_records(reversed(records), now, HORIZON) == records
    assert removable([old], set(), records) == [old]


def test_a_file_that_a_commit_may_still_name_stays() -> None:
    base = MetadataRecord(BEGIN, "m")
    ages = [SLACK - HOUR, SLACK + HOUR]
    files = [StoredFile(f"b/t/data/{number}", 1, BEGIN - age) for number, age in enumerate(ages)]
    assert removable(files, set(), [base]) == files[1:]
    assert file_removal.MAX_WRITE_AGE * 2 <= SLACK


def test_what_current_metadata_names_and_the_bucket_lacks() -> None:
    stored = {f"b/t/data/{name}": StoredFile(f"b/t/data/{name}", 5, BEGIN) for name in ("a", "b", "c")}
    named = {"b/t/data/a": 5, "b/t/data/b": None, "b/t/data/c": 6, "b/t/metadata/d": None, "b/other/e": 1}
    assert missing(named, stored, ["b/t/data/", "b/t/metadata/"]) == [
        "b/t/data/c has 5 bytes, and the metadata says 6", "b/t/metadata/d is missing",
    ]  # fmt: skip


def test_an_address_is_the_same_by_each_scheme() -> None:
    assert {path_of(f"{scheme}://b/t/a#b?c=%2F") for scheme in ("s3", "s3a", "s3n")} == {"b/t/a#b?c=%2F"}


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("b/t/data/day=2026-01-01/a.parquet", "data file"),
        ("b/t/metadata/00001-a.gz.metadata.json", "metadata file"),
        ("b/t/metadata/snap-1-1-a.avro", "manifest list"),
        ("b/t/metadata/a-m0.avro", "manifest"),
        ("b/t/metadata/a.stats", "other metadata"),
    ],
)
def test_kinds(path: str, kind: str) -> None:
    assert kind_of(path) == kind
