"""Files of tables in real services, deleted late: what a restored catalog finds, and what it does not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType

from local.runtime import roles
from sluice.airflow.hook import PlatformHook
from sluice.airflow.operators.maintenance.removal import RecordMetadataOperator
from sluice.clients.lake.catalog import Lake
from sluice.clients.lake.referenced import ReferencedFiles
from sluice.config.platform import DIRECTORY_VARIABLE
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.processes import exits
from sluice.core.tables import file_removal
from sluice.maintenance.removal import FileRemoval
from spark_jobs.common.lake import tables
from spark_jobs.common.lake.iceberg import MAIN, IcebergTable
from spark_jobs.common.spark.process import run_process
from tests.support.lakehouse import Stream
from tests.support.raising import raising
from tests.support.steps import given

DAY = timedelta(days=1)
RECORDS = 3


class Maintained:
    """A stream with three states of its table, each with other files for the same rows, and each without the
    snapshots before it. ``states``: their metadata files. For Airflow it is ``later``: nine days."""

    def __init__(self, stream: Stream) -> None:
        self.stream, self.table = stream, stream.spec.table
        self.later = datetime.now(UTC) + 9 * DAY
        self.states: list[str] = []
        self.hook = PlatformHook()
        stream.send(RECORDS)
        stream.run(stream.writer()).query.stop()
        for _ in range(3):
            stream.spark.sql(f"INSERT OVERWRITE lake.{self.table} SELECT * FROM lake.{self.table}")
            self._expire()
            self.states.append(stream.metadata_location())

    def _expire(self) -> None:
        table = IcebergTable(self.stream.spark, self.table)
        head = table.head(MAIN)
        assert head is not None
        others = dict.fromkeys(name for name in table.branches() if name != MAIN)
        snapshots = [snapshot.id for snapshot in table.snapshots(MAIN) if snapshot.id != head]
        table.change_refs({MAIN: head}, others, snapshots)

    def step(self, kind: type[Any]) -> Any:
        made = kind(task_id="step", stream=self.stream.spec.name)
        made.__dict__ |= {"spec": self.stream.spec, "platform_hook": self.hook}
        return made

    def record(self, days_ago: int, location: str) -> None:
        """As of each day until then."""
        history = self.hook.history(self.stream.spec.name)
        recorded = {round((self.later - record.at) / DAY) for record in history.metadata()}
        for day in range(days_ago, 0, -1):
            if day not in recorded:
                history.record_metadata({self.table: location}, self.later - day * DAY, "")

    def remove(self) -> Any:
        return FileRemoval(self.hook, self.stream.spec).remove(self.later)[self.table]

    def keys(self) -> set[str]:
        bucket = self.hook.bucket(roles.WAREHOUSE)
        return {file.path for file in bucket.files(f"lake/raw/{self.stream.spec.name}/")}

    def ensure(self) -> None:
        tables.ensure(self.stream.spark, self.stream.spec, StructType())

    def undelete(self, keys: set[str]) -> None:
        """As docs/operating.md: an administrator removes the delete markers."""
        s3 = self.stream.services.minio
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=roles.WAREHOUSE):
            for marker in page.get("DeleteMarkers", []):
                if f"{roles.WAREHOUSE}/{marker['Key']}" in keys:
                    s3.delete_object(Bucket=roles.WAREHOUSE, Key=marker["Key"], VersionId=marker["VersionId"])


@pytest.fixture
def maintained(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> Iterator[Maintained]:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(stream.services.stack.home.platform))
    # For S3 all files are of now.
    monkeypatch.setattr(file_removal, "SLACK", timedelta(0))
    made = Maintained(stream)
    yield made
    made.hook.lake.close()


def test_a_catalog_of_within_the_horizon_finds_its_files_and_an_older_one_is_named(
    maintained: Maintained, caplog: pytest.LogCaptureFixture
) -> None:
    oldest, recorded, current = maintained.states
    before = maintained.keys()
    assert "do not cover 7 days" in maintained.remove()
    maintained.record(1, current)
    maintained.record(8, recorded)
    removed = maintained.remove()
    gone = before - maintained.keys()
    assert len(gone) == removed > 0
    assert {"data", "metadata"} <= {key.split("/")[4] for key in gone}
    maintained.stream.assert_exact(RECORDS)
    assert maintained.remove() == 0

    maintained.stream.restore_catalog(recorded)
    maintained.stream.assert_exact(RECORDS)
    maintained.ensure()

    maintained.stream.restore_catalog(oldest)
    with (
        closing(Lake.open(maintained.stream.platform)) as lake,
        raising(Refused, oldest.rsplit("/", 1)[-1], "restore_horizon_days") as caught,
    ):
        lake.table(maintained.table)
    assert caught.value.code is ErrorCode.LAKE_FILE_MISSING
    assert run_process("the consumer", lambda stop: maintained.ensure()) == exits.CONFIGURATION
    assert f"SLU-224 LakeFileMissing: {oldest}" in caplog.messages[-1]

    maintained.undelete(gone)
    maintained.stream.assert_exact(RECORDS)


def test_a_file_that_the_current_table_lacks_is_named_before_anything_is_deleted(
    maintained: Maintained,
) -> None:
    maintained.record(8, maintained.states[-1])
    with closing(Lake.open(maintained.stream.platform)) as lake:
        uri = next(iter(lake.table(maintained.table).scan().plan_files())).file.file_path
    key = uri.removeprefix("s3://").split("/", 1)[1]
    maintained.stream.services.minio.delete_object(Bucket=roles.WAREHOUSE, Key=key)
    before = maintained.keys()
    with raising(Refused, key, "is missing", "previous version") as caught:
        maintained.remove()
    assert caught.value.code is ErrorCode.LAKE_FILE_MISSING
    assert maintained.keys() == before
    maintained.undelete({f"{roles.WAREHOUSE}/{key}"})
    assert maintained.remove() > 0
    maintained.stream.assert_exact(RECORDS)


def test_a_file_that_a_recorded_state_lacks_is_named_before_anything_is_deleted(
    maintained: Maintained,
) -> None:
    _, recorded, current = maintained.states
    maintained.record(1, current)
    maintained.record(8, recorded)
    with closing(Lake.open(maintained.stream.platform)) as lake:
        reader = ReferencedFiles(lake.table(maintained.table).io, maintained.table)
        only = reader.of(recorded)[0].keys() - reader.of(current)[0].keys()
    path = next(path for path in sorted(only) if "/data/" in path)
    key = path.split("/", 1)[1]
    maintained.stream.services.minio.delete_object(Bucket=roles.WAREHOUSE, Key=key)
    before = maintained.keys()
    with raising(Refused, key, "is missing") as caught:
        maintained.remove()
    assert caught.value.code is ErrorCode.LAKE_FILE_MISSING
    assert maintained.keys() == before
    maintained.undelete({path})
    assert maintained.remove() > 0


def test_no_other_role_may_delete(
    maintained: Maintained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maintained.record(8, maintained.states[-1])
    documents = maintained.stream.services.stack.platform_documents()
    documents["maintenance"]["s3"] = documents["consumer"]["s3"]
    roles.write(tmp_path, documents)
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path))
    before = maintained.keys()
    with raising(Refused, "AccessDenied", "s3:DeleteObject") as caught:
        maintained.remove()
    assert caught.value.code is ErrorCode.S3_PERMISSION
    assert maintained.keys() == before


def test_the_first_step_records_the_tables_that_there_are(maintained: Maintained) -> None:
    made = maintained.step(RecordMetadataOperator)
    made.work(given(run_id="r"))
    (record,) = maintained.hook.history(maintained.stream.spec.name).metadata()
    assert record.run == "r"
    assert record.tables[maintained.table] == maintained.states[-1]
    assert set(record.tables) == {maintained.table, maintained.stream.spec.quarantine_table}
