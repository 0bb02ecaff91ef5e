"""What runs in a history: consumers, which are the project's own code, and the compaction's steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from sluice.core.offsets.quarantine import CONSUMER_STAGE
from sluice.core.offsets.ranges import OffsetRanges
from spark_jobs.common.consumer import writer as consumer
from spark_jobs.common.consumer.direct.direct_rows import DirectRows
from spark_jobs.common.consumer.writer import StreamWriter
from spark_jobs.common.lake import quarantine, source_quarantine, writer_lease
from spark_jobs.common.lake.followed.documents import SCHEMA
from spark_jobs.common.lake.iceberg import MAIN
from spark_jobs.common.lake.source_quarantine import SourceQuarantine
from spark_jobs.common.lake.writer_lease import run_with_lease
from tests.protocol import dataframes, kafka, lake
from tests.protocol.catalog import File, Record
from tests.protocol.dataframes import Rows
from tests.protocol.reader import QUARANTINE, SPEC, STREAM, offsets_of_schemas, require
from tests.protocol.world import Process, World

# Than any snapshot, whose ids are their times.
LATER_MS = 10**9
# Schema -> the kinds that it rejects.
REJECTS = ({"bad", "new"}, {"bad"})
# The parts of the project's modules that need a server or a JVM.
REPLACED: Mapping[Any, Mapping[str, Any]] = {
    # Snapshots expire, and loaded rows are recorded, within a history.
    writer_lease: {"IcebergTable": lake.Table, "EXPIRY_INTERVAL": 2},
    quarantine: {
        "IcebergTable": lake.Table,
        "F": dataframes.F,
        "KEEP_SNAPSHOTS": 4,
        "now_ms": lambda: LATER_MS,
    },
    # Each branch of another producer is old enough to be removed.
    source_quarantine: {"now_ms": lambda: LATER_MS},
    consumer: {
        "now_ms": lambda: LATER_MS,
        "KEEP_SNAPSHOTS": 4,
        "RECORD_INTERVAL": 2,
        "SECOND_LOOK_SECONDS": 0,
        "client_of": lambda platform: platform.s3,
        "follow": lambda *_: None,
        "LoadedRowsStore": lake.LoadedRowsStore,
        "BatchLogWriter": lake.BatchLogWriter,
        "Checkpoints": lake.Checkpoints,
        "Group": kafka.Group,
        "topic_offsets": kafka.topic_offsets,
        "OffsetReader": lake.OffsetReader,
    },
}


@contextmanager
def without_servers() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module, names in REPLACED.items():
            for name, replacement in names.items():
                patch.setattr(module, name, replacement)
        yield


class DirectBatches:
    """In place of :class:`spark_jobs.common.consumer.direct.batch.DirectBatches`, over the model's topic."""

    def __init__(self, world: World, rejects: set[str], columns: int) -> None:
        """``rejects``: kinds of records; ``columns``: the version of the schema that the others are read
        as."""
        self._world, self._rejects, self._columns = world, rejects, columns

    def run(self, ranges: OffsetRanges, *_: object, **__: object) -> list[Any]:
        """Read and decode once; a file for each partition, which no commit names yet."""
        pairs = {partition: each.pairs() for partition, each in ranges.partitions.items()}
        self._world.point("read topic")
        records = self._world.topic.read(
            {partition: each[0][0] for partition, each in pairs.items()},
            {partition: each[-1][1] for partition, each in pairs.items()},
        )
        good = [
            record._replace(columns=min(self._columns, kafka.version_of(record.kind)))
            for record in records
            if record.kind not in self._rejects
        ]
        bad = [record._replace(reason="rejected") for record in records if record.kind in self._rejects]
        files = tuple(map(lake.DataFile, self._world.spark.written(good)))
        rejected = SimpleNamespace(count=len(bad), malformed=len(bad), newest=None, records=bad)
        versions = {kafka.version_of(record.kind) for record in good}
        return [
            SimpleNamespace(
                files=files,
                rejected=rejected,
                runs=(),
                accounts=(),
                skipped=OffsetRanges(),
                unfollowed=frozenset(version for version in versions if version > self._columns),
                schemas=offsets_of_schemas(good),
            )
        ]

    def quarantine_files(self, results: list[Any]) -> list[lake.DataFile]:
        staged = [r._replace(stage=CONSUMER_STAGE) for one in results for r in one.rejected.records]
        return [lake.DataFile(self._world.catalog.new_file(staged))]


def stream_writer(world: World, schema: int) -> StreamWriter:
    """The project's writer, whose schema rejects ``REJECTS[schema]``."""

    spark: Any = world.spark
    platform: Any = SimpleNamespace(
        kafka=world,
        s3=world,
        checkpoints=SimpleNamespace(root="checkpoints"),
        lake=SimpleNamespace(is_maintained_by_catalog=False),
    )

    known = [""]

    def batches(writer: StreamWriter) -> Any:
        known[:] = [writer.written_schema()]
        return DirectBatches(world, REJECTS[schema], int(known[0] or 0))

    def follow(writer: StreamWriter, versions: frozenset[int]) -> Any:
        world.point("write schema")
        properties = {SCHEMA: str(max(versions))}
        writer.change_schema(known[0], pa.schema([]), properties)
        return batches(writer)

    def directly(writer: StreamWriter) -> DirectRows:
        return DirectRows(batches(writer), writer.state.leader_epochs, follow=follow)

    return StreamWriter(spark, platform, SPEC, directly, kafka.TopicClient(world))  # type: ignore[arg-type]


def consume(process: Process, schema: int, until_end: bool = False) -> None:
    """The consumer's process. ``until_end``: it ends when it has read the topic."""
    world = process.world
    process.writer = stream_writer(world, schema)

    def work() -> None:
        positions = process.writer.acquire()
        # As ConsumerRun.until.
        try:
            _query(world, process.writer, positions, until_end)
        except Exception as error:
            process.writer.raise_failure([error], stopping=False)

    run_with_lease(process.writer, work)


def _query(world: World, writer: StreamWriter, positions: dict[int, int], until_end: bool) -> None:
    """Spark's streaming query over Kafka: plan, log the plan, run the batch."""
    world.point("plan")
    if set(positions) != set(world.topic.bounds()):
        raise LookupError("startingOffsets must name all partitions")
    at, batch = dict(positions), 0
    while True:
        world.point("plan")
        planned: dict[int, int] = {}
        for partition, (first, after) in world.topic.bounds().items():
            if partition not in at and first:
                raise LookupError(f"partition {partition} was added, and its records are gone")
            planned[partition] = max(after, at.get(partition, 0))
        if planned == at:
            writer.check_while_idle()
            if until_end:
                return
            world.point("idle")
            continue
        writer.checkpoint.write(batch, SPEC.topic.name, planned)  # type: ignore[attr-defined]
        # What Spark gives for it is not looked at.
        writer.batch(None, batch)  # type: ignore[arg-type]
        at, batch = planned, batch + 1


class ModelSourceQuarantine(SourceQuarantine):
    """With the model's rows in place of Spark's joins."""

    def _missing(self, rows: Any) -> Any:
        catalog = self.spark.world.catalog  # type: ignore[attr-defined]
        present = set(catalog.tables[self.name].records(self.branch))
        return Rows(rows.spark, lambda: [record for record in rows.evaluate() if record not in present])

    def _is_repeated(self, staged: int) -> bool:
        world = self.spark.world  # type: ignore[attr-defined]
        world.point("read quarantine")
        added = self.table._known.commits[staged].added  # type: ignore[attr-defined]
        present = set(world.catalog.tables[self.name].records(MAIN))
        return any(record in present for file in added for record in file.records)


def reject_rows(process: Process, number: int) -> None:
    """A producer quarantines so many rows of its source; another attempt of it may run."""
    world = process.world
    rows = [Record("", -1, row, "row", "malformed", "producer") for row in range(number)]
    spark: Any = world.spark
    ModelSourceQuarantine(spark, SPEC, []).add(Rows(spark, lambda: rows))  # type: ignore[arg-type]
    missing = set(rows) - set(world.catalog.tables[QUARANTINE].records(MAIN))
    require(not missing or world.restored, f"a producer has quarantined {missing}, and they are not there")


def compact(process: Process) -> None:
    """Iceberg's rewrite of the stream's files: planned, and committed if they are all there still."""
    world = process.world
    world.point("plan")
    head = world.catalog.tables[STREAM].latest(MAIN)
    if head is None or not head.files:
        return
    planned = head.files
    merged = world.catalog.new_file([record for file in planned for record in file.records])
    world.point("commit")

    def others(files: tuple[File, ...]) -> tuple[File, ...]:
        if not set(planned) <= set(files):
            raise LookupError("the files are not there")
        return tuple(file for file in files if file not in planned)

    world.catalog.commit(STREAM, MAIN, {"operation": "replace"}, [merged], others, "compact")
