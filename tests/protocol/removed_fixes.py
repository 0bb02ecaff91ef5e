"""The writers without one of their fixes, as the code was before: each of these the search must find."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from sluice.core.tables.writers import next_epoch, writer_name
from spark_jobs.common.consumer.writer import StreamWriter
from spark_jobs.common.lake.clock import now_ms
from spark_jobs.common.lake.followed.documents import followed_digest
from spark_jobs.common.lake.iceberg import MAIN
from spark_jobs.common.lake.quarantine import BatchQuarantine
from spark_jobs.common.lake.source_quarantine import SourceQuarantine
from spark_jobs.common.lake.writer_lease import WriterLease
from tests.protocol import lake
from tests.protocol.dataframes import Rows
from tests.protocol.reader import Reader, places


class RemovedFix(NamedTuple):
    """``faults``: the only ones that happen, of :data:`tests.protocol.history.FAULTS`.

    ``seed``: of a search that finds it within about a hundred histories.
    """

    remove: Callable[[pytest.MonkeyPatch], None]
    faults: frozenset[str]
    seed: int


def on_top_of_whatever_main_is(patch: pytest.MonkeyPatch) -> None:
    """As an append to main: what was written is put on top of it again, as it is by now."""

    def stage_again(self: WriterLease) -> Any:
        assert self._stage is not None
        self._staged = self._stage()
        return self._staged

    def publish(self: WriterLease, *_: object) -> None:
        staged = stage_again(self)
        self.table.change_refs({MAIN: staged.parent}, {MAIN: staged, self.branch: staged})
        self.published = self.head = staged.id

    patch.setattr(WriterLease, "_stage_again", stage_again)
    patch.setattr(WriterLease, "_publish", publish)


def unfenced_first_start(patch: pytest.MonkeyPatch) -> None:
    """The first snapshot is appended, so Iceberg puts that of the slower of two writers on top."""
    acquire = WriterLease._acquire

    def acquire_unfenced(
        self: WriterLease, read: Callable[[], None], summary: Callable[[], Mapping[str, str]], *more: Any
    ) -> None:
        self.table.refresh()
        if self.table.head(MAIN) is not None:
            acquire(self, read, summary, *more)
            return
        read()
        self.epoch = next_epoch(0, self.table.branches())
        self.branch = writer_name(self.epoch)
        model: Any = self.table
        model.append(MAIN, self._signed(summary()))
        start = self.table.head(MAIN)
        assert start is not None
        self.table.change_refs({}, {self.branch: start})
        self.published = self.head = start

    patch.setattr(WriterLease, "_acquire", acquire_unfenced)


def quarantine_before_publish(patch: pytest.MonkeyPatch) -> None:
    """A batch's rejected records are appended to main before its publish, unless they are there."""

    def stage(self: BatchQuarantine, files: Sequence[lake.DataFile], *_: object) -> list[str]:
        spark: Any = self.spark
        rejected = [record for one in files for record in one.file.records]
        present = places(spark.world.catalog.tables[self.name].records(MAIN))
        spark.world.point(f"append {self.name}")
        added = spark.written([record for record in rejected if record.place not in present])
        spark.world.catalog.commit(self.name, MAIN, {}, added)
        return [one.uri for one in files]

    patch.setattr(BatchQuarantine, "stage", stage)
    patch.setattr(BatchQuarantine, "publish", lambda self, *_: None)
    patch.setattr(BatchQuarantine, "settle", lambda self, *_: None)
    # It did not count, and what it held of offsets to come was no fault.
    patch.setattr(Reader, "held", Reader.rejected)
    patch.setattr(Reader, "may_be_early", True)


def new_partition_at_its_first_offset(patch: pytest.MonkeyPatch) -> None:
    """A partition that was added begins with what is left of it, as those of a new stream."""
    resume = StreamWriter._resume_from

    def resume_from(self: StreamWriter, bounds: Mapping[int, tuple[int, int]]) -> dict[int, int]:
        for partition, (first, _) in bounds.items():
            self.state.starts.setdefault(partition, first)
        return resume(self, bounds)

    patch.setattr(StreamWriter, "_resume_from", resume_from)


def no_look_at_the_topics_id(patch: pytest.MonkeyPatch) -> None:
    """A topic that is recreated under a batch is not noticed."""
    patch.setattr(StreamWriter, "_check_topic", lambda self, topic_id: None)


def nothing_staged_is_published_later(patch: pytest.MonkeyPatch) -> None:
    """What a writer staged that ended before it published it stays where it is."""
    settle = BatchQuarantine.settle

    def settle_main_alone(self: BatchQuarantine, *arguments: Any) -> None:
        vars(self)["_staged"] = lambda *_: None
        try:
            settle(self, *arguments)
        finally:
            vars(self).pop("_staged", None)

    patch.setattr(BatchQuarantine, "settle", settle_main_alone)


def staged_by_a_commit_of_its_own(patch: pytest.MonkeyPatch) -> None:
    """Iceberg repeats it if its answer is lost: ``main`` is then set to what was staged."""

    def stage(
        self: lake.Table,
        properties: Mapping[str, str],
        files_of: int | None = None,
        files: Sequence[lake.DataFile] = (),
    ) -> lake.Staged:
        self.refresh()
        world, catalog, base = self._world, self._catalog, self._known
        added = [file.file for file in files] if files_of is None else base.commits[files_of].added
        made = catalog.snapshot(base, MAIN, properties, added)
        world.point(f"commit {self.name}")
        new = replace(base, commits={**base.commits, made.id: made})
        catalog.swap(self.name, base, new, f"stage {made.id}")
        world.answer(f"committed {self.name}", self.name, MAIN, made.id)
        self.refresh()
        return lake.Staged(self._known, made)

    patch.setattr(lake.Table, "stage", stage)


def rows_of_a_source_appended_to_main(patch: pytest.MonkeyPatch) -> None:
    """By Iceberg's own commit, which it repeats over whatever main has become."""

    def add(self: SourceQuarantine, rows: Rows) -> None:
        spark, name = rows.spark, self.name
        present = set(spark.world.catalog.tables[name].records(MAIN))
        spark.world.point(f"append {name}")
        files = spark.written([record for record in rows.evaluate() if record not in present])
        number = spark.world.catalog.commit(name, MAIN, {}, files)
        spark.world.answer(f"appended {name}", name, MAIN, number)

    patch.setattr(SourceQuarantine, "add", add)


def staged_again_whatever_the_columns_are(patch: pytest.MonkeyPatch) -> None:
    """A batch that was written with columns is put on a table that was restored to before these."""
    patch.setattr(WriterLease, "_check_schema", lambda self: None)


def columns_without_the_lease(patch: pytest.MonkeyPatch) -> None:
    """As Iceberg's own commit, which it repeats on top of whatever the table has become."""

    def change_schema(self: WriterLease, _: str, *more: Any) -> None:
        self.table.refresh()
        self.table.change_schema({}, followed_digest(self.table.properties()), *more)
        self.table.refresh()

    patch.setattr(WriterLease, "change_schema", change_schema)


def offsets_of_schemas_before_the_publish(patch: pytest.MonkeyPatch) -> None:
    """In a commit of their own."""
    publish = WriterLease._publish

    def in_two_commits(
        self: WriterLease,
        keep: int,
        needed_from: Callable[[], int] = now_ms,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.table.change_refs({MAIN: self.published}, {}, (), properties)
        publish(self, keep, needed_from)

    patch.setattr(WriterLease, "_publish", in_two_commits)


REMOVED = {
    "offsets of schemas before the publish": RemovedFix(
        offsets_of_schemas_before_the_publish, frozenset({"kill"}), seed=0
    ),
    "columns committed without the lease": RemovedFix(
        columns_without_the_lease, frozenset({"start_another"}), seed=10
    ),
    "columns not compared with what was written": RemovedFix(
        staged_again_whatever_the_columns_are, frozenset({"restore"}), seed=4
    ),
    "1 publish on top of a restored main": RemovedFix(
        on_top_of_whatever_main_is, frozenset({"restore"}), seed=0
    ),
    "2 publish on top of another writer's": RemovedFix(
        on_top_of_whatever_main_is, frozenset({"start_another"}), seed=4
    ),
    "3 first start not fenced": RemovedFix(unfenced_first_start, frozenset({"start_another"}), seed=2),
    "4 quarantine before publish": RemovedFix(quarantine_before_publish, frozenset({"kill"}), seed=4),
    "5 new partition begins at its first offset": RemovedFix(
        new_partition_at_its_first_offset, frozenset({"widen", "retain", "kill"}), seed=4
    ),
    "topic id not checked": RemovedFix(no_look_at_the_topics_id, frozenset({"recreate", "kill"}), seed=3),
    "rows of a source appended to main": RemovedFix(
        rows_of_a_source_appended_to_main, frozenset({"start_producer", "lose_answer"}), seed=1
    ),
    "staged records of an ended writer not published": RemovedFix(
        nothing_staged_is_published_later, frozenset({"kill"}), seed=0
    ),
}
