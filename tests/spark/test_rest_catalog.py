"""What a REST catalog is asked to compare: all refs that a commit counts on, not those alone that it sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from functools import partialmethod
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sluice.catalog_check import kept
from sluice.catalog_check.kept import CatalogBroken
from sluice.catalog_check.trial import Finding
from sluice.clients.catalogs.errors import NotFromCatalog
from sluice.clients.catalogs.rest import BoundedCatalog
from sluice.config.platform_sections.catalog import CHECK_NAMESPACE, REST, SQL
from sluice.config.reading.toml import ConfigError
from sluice.core.changes.plan import Action
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Unreachable
from sluice.core.offsets.ranges import OffsetRanges
from spark_jobs.common.lake import promises, tables
from spark_jobs.common.lake.expected_refs import catalog_of, properties_of
from spark_jobs.common.lake.iceberg import MAIN, CommitRefused, IcebergTable
from spark_jobs.common.lake.writer_lease import WriterLease
from spark_jobs.common.maintenance.compact import compact
from spark_jobs.common.maintenance.staged_change import StagedChange
from spark_jobs.common.maintenance.staged_rewrite import StagedRewrite
from spark_jobs.common.spark.failures import failure_line, known
from tests.spark.test_schema_changes import EACH, Orders, change_of, made_orders
from tests.support.broken_catalogs import BROKEN
from tests.support.catalog_proxy import CatalogProxy, through
from tests.support.catalogs import on_each_catalog
from tests.support.lakehouse import PARTITIONS, Stream, commit
from tests.support.raising import raising
from tests.support.services import Services

ON_EACH = on_each_catalog(REST)


class Raced(IcebergTable):
    """Another client commits after this one has looked at the refs."""

    def __init__(self, stream: Stream, between: Callable[[], object]) -> None:
        super().__init__(stream.spark, stream.spec.table)
        self.between = between

    def _commit(self, *arguments: Any) -> None:
        self.between()
        super()._commit(*arguments)


def heads(table: IcebergTable) -> Mapping[str, int | None]:
    table.refresh()
    return {name: table.head(name) for name in table.branches()}


@pytest.mark.exhaustive
@pytest.mark.parametrize("stream", [REST], indirect=True)
def test_a_table_is_made_only_where_the_promises_are_kept(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = dict(properties_of(stream.spark))
    assert kept.read(catalog_of(properties_of(stream.spark)), properties[CHECK_NAMESPACE]), "it made one"
    monkeypatch.setattr(kept, "VERSION", 99)
    monkeypatch.setattr(
        kept, "findings", lambda *_: [Finding("publish", "text", "this", "that", is_kept=False)]
    )
    promises._check.cache_clear()
    with raising(CatalogBroken, properties["uri"], "publish", "this", "that"):
        tables.create(stream.spark, "raw.not_made", ["id long"])
    assert tables.load(stream.spark, "raw.not_made") is None


def test_a_consumer_on_a_broken_catalog_ends_with_the_promise_before_its_first_commit(
    spark: SparkSession, services: Services, tmp_path: Path
) -> None:
    with CatalogProxy(services.rest_catalog, BROKEN["untouched-ref"]) as proxy:
        with raising(CatalogBroken, "untouched-ref", proxy.url) as caught:
            # What is found of a catalog is kept there, and the one behind keeps all promises.
            Stream(
                *(spark, services, "on_broken", str(tmp_path)),
                catalog=REST,
                changed=lambda one: through(proxy.url, one, check_namespace="check_broken"),
            )
        asked = proxy.requests()
    assert failure_line(caught.value).startswith(str(ErrorCode.CATALOG_BROKEN))
    assert isinstance(known(caught.value), ConfigError), "its process ends for good"
    tables_asked = [one for one in asked if "/tables" in one]
    assert tables_asked
    assert all("/namespaces/check_broken/tables" in one for one in tables_asked)


@pytest.mark.parametrize("stream", [REST], indirect=True)
def test_a_404_of_a_proxy_is_no_lost_table(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java's client takes it for a missing one, and a consumer would end for good."""

    def load_table(*_: object) -> None:
        raise NotFromCatalog("GET https://catalog.test: 404")

    monkeypatch.setattr(BoundedCatalog, "load_table", load_table)
    with raising(Unreachable, "raw.not_made", "404"):
        tables.load(stream.spark, "raw.not_made")


@ON_EACH
def test_batches_are_published(stream: Stream) -> None:
    running = stream.run(stream.writer())
    for _ in range(3):
        stream.send(2)
        running.query.processAllAvailable()
    stream.assert_exact(6)


@ON_EACH
@pytest.mark.parametrize("change", ["removed", "moved"])
def test_what_another_client_does_to_a_branch_under_a_publish_refuses_it(stream: Stream, change: str) -> None:
    writer = stream.writer()
    writer.acquire()
    commit(writer.table, {"sluice.kind": "batch"}, writer.branch)
    other = IcebergTable(stream.spark, stream.spec.table)
    before = heads(other)
    branch = before[writer.branch]

    def between() -> None:
        if change == "removed":
            other.change_refs({writer.branch: branch}, {writer.branch: None})
        else:
            commit(other, {"sluice.kind": "batch"}, writer.branch)

    with raising(CommitRefused):
        Raced(stream, between).change_refs({MAIN: before[MAIN], writer.branch: branch}, {MAIN: branch})
    assert heads(other)[MAIN] == before[MAIN]


@ON_EACH
def test_a_branch_that_another_client_has_moved_is_not_removed(stream: Stream) -> None:
    writer = stream.writer()
    writer.acquire()
    other = IcebergTable(stream.spark, stream.spec.table)
    branch = heads(other)[writer.branch]
    mine = Raced(stream, lambda: commit(other, {"sluice.kind": "batch"}, writer.branch))
    with raising(CommitRefused):
        mine.change_refs({writer.branch: branch}, {writer.branch: None})
    assert heads(other)[writer.branch] not in (None, branch)


@ON_EACH
def test_a_commit_to_another_branch_refuses_a_staged_snapshot(stream: Stream) -> None:
    """Its sequence number is taken: a REST server without apache/iceberg#15126 answers 400 instead of 409."""
    writer = stream.writer()
    writer.acquire()
    other = IcebergTable(stream.spark, stream.spec.table)
    other.change_refs({MAIN: other.head(MAIN)}, {"other": other.head(MAIN)})
    before = heads(other)
    mine = Raced(stream, lambda: commit(other, {"sluice.kind": "batch"}, "other"))
    staged = mine.stage({"sluice.kind": "batch"})
    with raising(CommitRefused):
        mine.change_refs({MAIN: before[MAIN], writer.branch: before[writer.branch]}, {MAIN: staged})
    assert heads(other)[MAIN] == before[MAIN]


@ON_EACH
def test_a_catalog_restored_to_before_the_columns_takes_no_snapshot_that_has_them(stream: Stream) -> None:
    """Between a writer's look at the metadata and its commit; ``main`` is where it was in the backup."""
    writer = stream.writer()
    writer.acquire()
    backup = stream.metadata_location()
    other = IcebergTable(stream.spark, stream.spec.table)
    refs = {MAIN: other.head(MAIN), writer.branch: other.head(writer.branch)}
    other.change_schema(refs, "", pa.schema([("more", pa.string())]), {"sluice.schema": "x"})
    mine = Raced(stream, lambda: stream.restore_catalog(backup))
    staged = mine.stage({"sluice.kind": "batch"})
    with raising(CommitRefused):
        mine.change_refs(refs, {MAIN: staged, writer.branch: staged})
    assert {name: heads(other)[name] for name in refs} == refs


@ON_EACH
@pytest.mark.exhaustive
def test_a_compaction_is_published_again_if_a_branch_got_a_commit_meanwhile(stream: Stream) -> None:
    """As that of a batch with rejected records, which publishes a second later."""
    for _ in range(6):
        stream.send(1)
        stream.run(stream.writer()).query.stop()
    other, done = IcebergTable(stream.spark, stream.spec.table), list[str]()

    class Meanwhile(StagedRewrite):
        def _swap(self, transaction: Any) -> None:
            if not done:
                other.refresh()
                done.append(next(name for name in other.branches() if name != MAIN))
                commit(other, {"sluice.kind": "batch"}, done[0])
            super()._swap(transaction)

    assert compact(stream.spark, stream.spec.table, date(2030, 1, 1), rewrite_class=Meanwhile)
    stream.assert_exact(6)
    assert len(done) == 1


@pytest.fixture(params=[REST, pytest.param(SQL, marks=pytest.mark.exhaustive)])
def orders(
    spark: SparkSession,
    services: Services,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Iterator[Orders]:
    monkeypatch.setattr(Stream, "__init__", partialmethod(Stream.__init__, catalog=request.param))
    yield from made_orders(spark, services, tmp_path, monkeypatch, ("quarantine", ()))


class _EndedError(Exception):
    """A writer ends between its commit of columns and its batch."""


@pytest.mark.exhaustive
def test_a_change_publishes_no_rows_by_an_older_schema_than_the_table_s(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream's writer follows a new version between the change's look at the columns and its commit: that
    commit moves no ref."""
    following = orders.spec
    assert following.records is not None
    orders.spec = replace(following, records=replace(following.records, new_fields="unknown_fields"))
    orders.send_version(1)
    orders.send_version(2)
    orders.run(orders.writer()).query.stop()
    orders.spec = following
    writer = orders.writer()
    positions = writer.acquire()
    add_columns, swap, done = WriterLease.change_schema, StagedChange._swap, list[str]()

    def then_end(*arguments: Any) -> None:
        add_columns(*arguments)
        done.append("columns")
        raise _EndedError

    def after_the_columns(staged: StagedChange, transaction: Any) -> None:
        if not done:
            orders.send_version(2)
            with pytest.raises(_EndedError):
                orders.await_end(orders.consume(writer, positions))
        swap(staged, transaction)

    monkeypatch.setattr(WriterLease, "change_schema", then_end)
    monkeypatch.setattr(StagedChange, "_swap", after_the_columns)
    offsets = OffsetRanges.of({partition: [(0, 2 * EACH)] for partition in range(PARTITIONS)})
    change_of(orders, Action.REPLAY, rows_out=offsets, rows_in=offsets)
    assert done == ["columns"]
    assert not [place for place, row in orders.rows().items() if row["_unknown_fields"] is not None]
