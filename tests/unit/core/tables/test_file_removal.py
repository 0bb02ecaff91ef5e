"""Which files may be deleted: none that a catalog restored within the horizon needs, and the rest at last."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.core.tables import file_removal
from sluice.core.tables.file_removal import (
    MAX_WRITE_AGE,
    SLACK,
    ClockChanged,
    MetadataRecord,
    StoredFile,
    Usage,
    kind_of,
    missing,
    needed_records,
    path_of,
    removable,
)
from tests.support.raising import raising

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
HORIZON = timedelta(days=3)
LONGEST = timedelta(days=2)


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
    """A table's bucket, catalog and records. ``past``: (from, until) in which a state was current; ``ahead``:
    how far Airflow's clock is. It steps forward once, and may be set right later."""

    now: datetime = BEGIN
    ahead: timedelta = timedelta(0)
    has_stepped: bool = False
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
        at = self.now + self.ahead
        self.records.append(MetadataRecord(at, {"t": self.current.location}, "r"))
        self.records.sort(key=lambda record: record.at)

    def step(self, hours: int) -> None:
        if not self.has_stepped:
            self.ahead, self.has_stepped = hours * HOUR, True

    def correct(self) -> None:
        self.ahead = timedelta(0)

    def restorable(self) -> list[State]:
        """Each state that was current at a moment of the last days, and is there."""
        return [state for _, until, state in self.past if until > self.now - HORIZON] + [self.current]

    def restore(self, number: int) -> None:
        """As docs/operating.md says: maintenance runs before anything else."""
        states = self.restorable()
        self.become(states[number % len(states)])
        self.record()

    def remove(self) -> None:
        stored = {name: StoredFile(name, 1, at) for name, at in self.files.items()}
        try:
            records = needed_records(reversed(self.records), self.now + self.ahead, HORIZON, LONGEST)
            if not records:
                return
            base = records[0]
            needed = {name for record in records for name in self.states[record.tables["t"]].names}
            metadata = stored[base.tables["t"]]
            found = [*removable(stored.values(), needed | self.current.names, base.at, metadata)]
        except ClockChanged:
            return
        for file in found:
            del self.files[file.path]

    def maintain(self) -> None:
        """As the DAG: what is current, a compaction, what may go."""
        self.record()
        self.rewrite(timedelta(0))
        self.expire()
        self.remove()

    def days(self, number: int) -> None:
        for _ in range(number):
            self.now += 12 * HOUR
            self.append(timedelta(0), accepted=True)
            self.now += 12 * HOUR
            self.maintain()

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
    st.tuples(st.just("days"), st.integers(1, 6)),
    st.tuples(st.just("restore"), st.integers(0, 20)),
    st.tuples(st.just("step"), st.integers(1, 300)),
    st.tuples(st.just("correct")),
    st.tuples(st.just("wait"), st.integers(1, 100)),
)


@settings(max_examples=8 * settings().max_examples, deadline=None)
@given(st.lists(STEPS, max_size=60))
def test_no_state_of_the_horizon_loses_a_file_and_the_rest_goes_at_last(
    steps: list[tuple[object, ...]],
) -> None:
    world = World()
    for name, *arguments in steps:
        if name == "wait":
            world.now += HOUR * arguments[0]  # type: ignore[operator]
        elif name == "maintenance":
            world.maintain()
        else:
            getattr(world, str(name))(*arguments)
        world.assert_whole()
    world.correct()
    for _ in range(20):
        world.now += timedelta(days=1)
        world.expire()
        world.record()
        world.remove()
        world.assert_whole()
    rest = world.files.keys() - world.current.names
    assert all(world.now - world.files[name] <= HORIZON + LONGEST + SLACK for name in rest), rest


def recorded(*hours_ago: float) -> list[MetadataRecord]:
    return [MetadataRecord(BEGIN - hours * HOUR, {"t": f"m{hours}"}, "r") for hours in hours_ago]


def base_of(*hours_ago: float) -> float | None:
    found = needed_records(recorded(*hours_ago), BEGIN, HORIZON, LONGEST)
    return (BEGIN - found[0].at) / HOUR if found else None


def test_the_base_covers_the_horizon_without_its_longest_gap() -> None:
    assert base_of(0, 24, 48, 72) is None
    assert base_of(0, 24, 48, 72, 96, 120) == 96
    assert base_of(0, 24, 40, 64, 88, 112) == 112
    assert base_of() is None
    days = needed_records(recorded(0, 24, 48, 72, 96, 120), BEGIN, HORIZON, LONGEST)
    assert days == recorded(96, 72, 48, 24, 0)


def test_a_clock_that_is_ahead_for_a_run_makes_no_record_as_old_as_the_horizon() -> None:
    # It was set forward by eight days, after the run of 199 hours ago and before that of an hour ago.
    assert base_of(1, 199, 223) is None
    assert base_of(1, 199, 223, 247, 271) == 271
    # After it.
    assert base_of(192, 216, 240) is None


def test_a_pause_of_maintenance_keeps_files_longer() -> None:
    pauses = (0, 24, 48, 1000, 1024, 1048, 1072)
    assert base_of(*pauses) == 1024
    # Maintenance that always runs less often than the schedule says: a gap counts as two intervals.
    assert base_of(0, 200, 400, 600, 800) == 600


def test_a_record_from_the_future_is_an_error() -> None:
    with raising(ClockChanged, "2026-01-01T01:00:00", "2026-01-01T00:00:00"):
        base_of(-1, 24, 48, 72, 96)


def test_what_may_be_deleted_is_older_than_the_bases_metadata_file_and_named_by_none() -> None:
    ages = [SLACK - HOUR, SLACK + HOUR, SLACK + HOUR]
    old = [StoredFile(f"b/t/data/{n}", 1, BEGIN - age) for n, age in enumerate(ages)]
    base = StoredFile("b/t/metadata/m.metadata.json", 1, BEGIN)
    # The clock was ahead when it was recorded.
    at = BEGIN + 10 * SLACK
    needed = {"b/t/metadata/m.metadata.json", "b/t/data/2"}
    stored = Usage()
    found = removable(stored.counting([*old, base]), needed, at, base)
    assert stored.number == 0, "each is looked at when it is asked for"
    assert [*found] == [old[1]]
    assert stored.rows() == [("data file", 3, 3), ("metadata file", 1, 1)]
    assert file_removal.MAX_WRITE_AGE * 2 <= SLACK


def test_a_base_that_was_written_after_its_record_is_an_error() -> None:
    base = StoredFile("b/t/metadata/m.metadata.json", 1, BEGIN)
    assert [*removable([base], {base.path}, BEGIN - SLACK, base)] == []
    with raising(ClockChanged, base.path, "2026-01-01T00:00:00", "2025-12-30T23:00:00"):
        removable([base], {base.path}, BEGIN - SLACK - HOUR, base)


def test_what_current_metadata_names_and_the_bucket_lacks() -> None:
    stored = (StoredFile(f"b/t/data/{name}", 5, BEGIN) for name in ("a", "b", "c", "unnamed"))
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
