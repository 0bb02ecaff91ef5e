"""A stream whose tables are read and written with the catalog's keys: those of roles may not."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from botocore.exceptions import ClientError
from pyspark.sql import SparkSession

from sluice.clients.catalogs import vended as vended_module
from sluice.clients.lake.catalog import Lake
from sluice.clients.s3.objects import Bucket
from sluice.clients.s3.requests import connect, split
from sluice.config.platform_sections.catalog import REST
from sluice.config.platform_sections.lake import CATALOG
from sluice.core.changes.plan import Action, ChangePlan
from sluice.core.decoding.decoder import Decoded, OwnRecords
from sluice.core.offsets.ranges import OffsetRanges
from sluice.ledger.documents import Ledger
from sluice.maintenance.reconciliation.table_contents import TableContents
from spark_jobs.common.consumer import writer as writer_module
from spark_jobs.common.consumer.direct.direct_rows import DirectSource
from spark_jobs.common.lake.promises import CatalogOverrides
from spark_jobs.common.maintenance.change import Change
from spark_jobs.common.maintenance.compact import compact
from spark_jobs.common.queries.aggregate import source
from spark_jobs.common.spark.failures import failure_line
from spark_jobs.common.spark.session import SETTINGS, catalog_options
from tests.support.lakehouse import PARTITIONS, Stream, TextDecoder, accepting, activate
from tests.support.raising import raising
from tests.support.services import Services
from tests.support.task_systems import task_systems
from tests.support.vending import VendingCatalog

_numbers = count()


@pytest.fixture(scope="module")
def vending(services: Services) -> Iterator[VendingCatalog]:
    with VendingCatalog(services) as made:
        yield made
        made.revoke()


@pytest.fixture(autouse=True)
def as_usual(vending: VendingCatalog) -> Iterator[None]:
    yield
    vending.vending.__init__(given=vending.vending.given, made=vending.vending.made)  # type: ignore[misc]


@pytest.fixture
def stream(
    spark: SparkSession,
    services: Services,
    vending: VendingCatalog,
    tmp_path: Path,
) -> Iterator[Stream]:
    name = f"vended_{next(_numbers)}"
    platform = vending.platform("consumer")
    made = Stream(spark, services, name, str(tmp_path), catalog=REST, changed=lambda _: platform)
    yield made
    made.stop()


def assert_reconciled(stream: Stream, vending: VendingCatalog) -> None:
    spec, platform = stream.spec, vending.platform("airflow")
    with task_systems(platform) as systems:
        ledger = Ledger(systems.s3, platform.lake.ledger, spec.name)
        contents = TableContents(systems.lake, spec.table, spec.quarantine_table, ledger, systems.batch_log)
        findings, verified = contents.verify(None, None)
        # What an audit and check_files list.
        place = split(systems.lake.table(spec.table).location())
        bucket, prefix = Bucket(systems.s3, place[0]), f"{place[1]}/data/"
        assert {one.key for one in bucket.entries(prefix)} >= {
            one.path.partition("/")[2] for one in bucket.files(prefix)
        }
    assert findings == []
    assert verified is not None


class SlowDecoder(TextDecoder):
    """Takes ``seconds`` for records in which there is the text ``slow``."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def decode(self, values: pa.BinaryArray, headers: pa.ListArray) -> Decoded:
        if b"slow" in values.to_pylist():
            time.sleep(self._seconds)
        return super().decode(values, headers)


def secrets_of(vending: VendingCatalog) -> set[str]:
    """All that may be in no text."""
    names = ("s3.secret-access-key", "s3.session-token")
    return {given.properties[name] for given in vending.vending.given.values() for name in names}


def test_a_stream_its_changes_and_its_maintenance_have_no_other_keys(
    stream: Stream, vending: VendingCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "sluice")
    running = stream.run(stream.writer())
    for _ in range(3):
        stream.send(2)
        running.query.processAllAvailable()
    running.stop()
    compact(stream.spark, stream.spec.table, date(2026, 1, 1))
    ranges = OffsetRanges.of({0: [(1, 3)]})
    plan = ChangePlan("r1", Action.REPLAY, stream.spec.topic.name, rows_out=ranges, rows_in=ranges, changes=0)
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
    plan_of_spark = stream.spark.table(f"{CATALOG}.{stream.spec.table}")._jdf.queryExecution().toString()
    assert secrets_of(vending)
    assert not [one for one in secrets_of(vending) if one in caplog.text or one in plan_of_spark]


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("s3.delete-enabled", "true", "'true'"),
        ("s3.endpoint", "http://other.test:81", "http://other.test:81, another machine"),
    ],
)
def test_a_catalog_that_overrides_what_commits_rely_on_is_refused(
    stream: Stream, vending: VendingCatalog, key: str, value: str, words: str
) -> None:
    vending.vending.config, vending.vending.in_config = {key: value}, False
    with raising(CatalogOverrides, stream.spec.table, key, words, "Fix:"):
        stream.writer()


@pytest.mark.exhaustive
@pytest.mark.parametrize("in_config", [True, False], ids=["config", "storage-credentials"])
@pytest.mark.parametrize("refreshes", [True, False], ids=["renewed", "lasting"])
def test_keys_end_while_a_stream_runs_and_no_batch_is_lost_or_doubled(
    stream: Stream,
    vending: VendingCatalog,
    monkeypatch: pytest.MonkeyPatch,
    in_config: bool,
    refreshes: bool,
) -> None:
    state = vending.vending
    state.seconds, state.in_config, state.refreshes = 30, in_config, refreshes
    state.given.clear()
    # So that tasks write, which outlive their keys.
    monkeypatch.setattr(writer_module, "SMALL_BATCH", 0)
    writer = stream.writer()
    decoding = OwnRecords(SlowDecoder(35))
    writer.rows_of = DirectSource(stream.spark, stream.platform, stream.spec, decoding)
    began = len(state.made)
    running = stream.run(writer)
    for number in range(9):
        stream.send(2)
        if number == 4:
            slow = {partition: [b"slow"] for partition in range(PARTITIONS)}
            stream.services.send(stream.spec.topic.name, slow)
        running.query.processAllAvailable()
        time.sleep(5)
    running.stop()
    assert [said["epoch"] for said in stream.summaries()] == ["1"] * len(stream.summaries()), "no restart"
    assert len(state.made) - began >= 6, "of two tables, three times"
    stream.assert_exact(19)
    compact(stream.spark, stream.spec.table, date(2026, 1, 1))
    stream.assert_exact(19)
    assert_reconciled(stream, vending)


@pytest.mark.exhaustive
def test_a_query_reads_on_when_its_keys_have_ended(
    stream: Stream, vending: VendingCatalog, tmp_path: Path
) -> None:
    vending.vending.seconds = 30
    vending.vending.given.clear()
    session = stream.spark.newSession()
    io = {key: value for key, value in SETTINGS.items() if key.startswith("spark.sql.catalog")}
    for key, value in (catalog_options(stream.platform) | io).items():
        session.conf.set(key, value)
    running = stream.run(stream.writer())
    activate(session)
    rows = source(session, stream.spec.table)
    into = rows.writeStream.format("memory").queryName("vended_rows")
    query = into.option("checkpointLocation", (tmp_path / "query").as_uri()).start()
    for _ in range(6):
        stream.send(2)
        running.query.processAllAvailable()
        query.processAllAvailable()
        time.sleep(8)
    query.stop()
    assert session.table("vended_rows").count() == 24


@pytest.mark.exhaustive
def test_keys_that_are_revoked_before_their_end_are_asked_for_again(
    stream: Stream, vending: VendingCatalog
) -> None:
    running = stream.run(stream.writer())
    stream.send(2)
    running.query.processAllAvailable()
    with closing(Lake.open(vending.platform("reader"))) as lake:
        table = lake.table(stream.spec.table)
        vending.revoke()
        assert table.scan().to_arrow().num_rows == 4


@pytest.mark.exhaustive
@pytest.mark.parametrize("wrong", ["is_silent", "is_readonly", "prefix"])
def test_keys_without_a_right_are_refused_with_the_fix(
    stream: Stream, vending: VendingCatalog, wrong: str
) -> None:
    stream.send(2)
    setattr(vending.vending, wrong, "warehouse/lake/other" if wrong == "prefix" else True)
    vending.vending.given.clear()
    vended_module._vended.cache_clear()
    line = ""
    try:
        stream.run(stream.writer())
    except Exception as error:
        line = failure_line(error)
    assert line.startswith(("SLU-229", "SLU-212")), line
    assert "Fix: " in line
    assert "catalog" in line
