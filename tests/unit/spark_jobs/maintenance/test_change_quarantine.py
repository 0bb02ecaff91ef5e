"""What a change does in the quarantine, without Spark."""

from __future__ import annotations

from types import SimpleNamespace, TracebackType
from typing import Any

import pytest

from sluice.core.offsets.quarantine import NO_REJECTIONS, Rejections
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.batches import Snapshot
from spark_jobs.common.lake.writer_lease import ConcurrentCommit
from spark_jobs.common.maintenance import change_quarantine
from spark_jobs.common.maintenance.change_quarantine import ChangeQuarantine
from spark_jobs.common.maintenance.staged_change import Touched
from tests.support.raising import raising

# What the stream's batches rejected, and what is left of it after the change.
BEFORE, AFTER = Rejections(2, "w1/5"), Rejections(1, "change/c1-w1")


class NothingLeaves:
    """The quarantine's files, without a record of the change. ``on_read``: what comes meanwhile."""

    def __init__(self, on_read: Any) -> None:
        self._on_read = on_read

    def __enter__(self) -> NothingLeaves:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def touched(self, ranges: OffsetRanges) -> Touched:
        self._on_read()
        return Touched()


class Table:
    """A quarantine whose ``main`` says ``held``, as of its last refresh."""

    def __init__(self, held: Rejections) -> None:
        self.now = self.seen = held

    def refresh(self) -> None:
        self.seen = self.now

    def line(self) -> Any:
        return iter([Snapshot(1, 0, self.seen.properties())])


def stage(monkeypatch: pytest.MonkeyPatch, table: Table, before: Rejections, on_read: Any) -> Any:
    monkeypatch.setattr(change_quarantine, "StagedChange", lambda *given: NothingLeaves(on_read))
    quarantine: Any = object.__new__(ChangeQuarantine)
    quarantine.__dict__ |= {"spark": None, "name": "raw.t_quarantine", "table": table, "_reader": None}
    quarantine.__dict__ |= {"_staged_for": None, "_own": ""}
    none = OffsetRanges()
    going = OffsetRanges.of({0: [(3, 5)]})
    return quarantine.stage_change("c1", 1, before, going, none, SimpleNamespace())


def test_a_change_of_which_nothing_is_here_leaves_it_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for held in (BEFORE, NO_REJECTIONS):
        assert stage(monkeypatch, Table(held), held, lambda: None)[0] == held


@pytest.mark.parametrize("when", ["before", "while it is read"])
def test_what_another_attempt_took_out_is_not_said_to_have_been_absent(
    monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """An attempt was suspended, and another one published the change and took its records out: the result
    of the first was without them."""
    table = Table(AFTER if when == "before" else BEFORE)

    def publish() -> None:
        table.now = AFTER

    with raising(ConcurrentCommit, "raw.t_quarantine", "1 rejected records", "2 rejected records"):
        stage(monkeypatch, table, BEFORE, publish)
