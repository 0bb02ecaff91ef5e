"""A stream whose tables are read and written with the catalog's keys: those of roles may not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from pyspark.sql import SparkSession

from sluice.clients.lake.catalog import Lake
from sluice.clients.s3.requests import connect, split
from sluice.core.changes.plan import Action, ChangePlan
from sluice.core.offsets.ranges import OffsetRanges
from sluice.ledger.documents import Ledger
from sluice.maintenance.reconciliation.table_contents import TableContents
from spark_jobs.common.maintenance.change import Change
from spark_jobs.common.maintenance.compact import compact
from tests.support.lakehouse import Stream, accepting
from tests.support.services import Services
from tests.support.task_systems import task_systems
from tests.support.vending import VendingCatalog


@pytest.fixture(scope="module")
def vending(services: Services) -> Iterator[VendingCatalog]:
    with VendingCatalog(services) as made:
        yield made
        made.revoke()


@pytest.fixture
def stream(
    spark: SparkSession,
    services: Services,
    vending: VendingCatalog,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Stream]:
    name = f"vended_{request.node.name.partition('[')[0][5:25]}"
    made = Stream(spark, services, name, str(tmp_path), catalog=vending.platform("consumer"))
    yield made
    made.stop()


def assert_reconciled(stream: Stream, vending: VendingCatalog) -> None:
    spec, platform = stream.spec, vending.platform("airflow")
    with task_systems(platform) as systems:
        ledger = Ledger(systems.s3, platform.lake.ledger, spec.name)
        contents = TableContents(systems.lake, spec.table, spec.quarantine_table, ledger, systems.batch_log)
        findings, verified = contents.verify(None, None)
    assert findings == []
    assert verified is not None


def test_a_stream_its_changes_and_its_maintenance_have_no_other_keys(
    stream: Stream, vending: VendingCatalog
) -> None:
    running = stream.run(stream.writer())
    for _ in range(3):
        stream.send(2)
        running.query.processAllAvailable()
    running.stop()
    ranges = OffsetRanges.of({0: [(1, 3)]})
    plan = ChangePlan("r1", Action.REPLAY, stream.spec.topic.name, rows_out=ranges, rows_in=ranges, changes=0)
    compact(stream.spark, stream.spec.table, date(2026, 1, 1))
    Change(stream.spark, stream.platform, stream.spec, lambda _: accepting, plan).run()
    stream.assert_exact(6)
    assert_reconciled(stream, vending)
    with closing(Lake.open(vending.platform("reader"))) as lake:
        table = lake.table(stream.spec.table)
        assert table.scan().to_arrow().num_rows == 12
    bucket, prefix = split(table.location())
    for role in ("consumer", "airflow", "reader"):
        with pytest.raises(ClientError, match="AccessDenied"):
            connect(vending.platform(role).s3).list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/data/")
