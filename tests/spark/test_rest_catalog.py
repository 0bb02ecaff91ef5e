"""What a REST catalog is asked to compare: all refs that a commit counts on, not those alone that it sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sluice.catalog_check import kept
from sluice.catalog_check.kept import CatalogBroken
from sluice.catalog_check.trial import Finding
from sluice.config.platform_sections.catalog import CHECK_NAMESPACE, REST, SQL
from sluice.config.reading.toml import ConfigError
from sluice.core.error_codes import ErrorCode
from spark_jobs.common.lake import promises, tables
from spark_jobs.common.lake.expected_refs import catalog_of, properties_of
from spark_jobs.common.lake.iceberg import MAIN, CommitRefused, IcebergTable
from spark_jobs.common.spark.failures import failure_line, known
from tests.support.broken_catalogs import BROKEN
from tests.support.catalog_proxy import CatalogProxy, through
from tests.support.lakehouse import Stream, commit
from tests.support.raising import raising
from tests.support.services import Services

BOTH = pytest.mark.parametrize(
    "stream", [REST, pytest.param(SQL, marks=pytest.mark.exhaustive)], indirect=True
)


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


@BOTH
def test_batches_are_published(stream: Stream) -> None:
    running = stream.run(stream.writer())
    for _ in range(3):
        stream.send(2)
        running.query.processAllAvailable()
    stream.assert_exact(6)


@BOTH
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


@BOTH
def test_a_branch_that_another_client_has_moved_is_not_removed(stream: Stream) -> None:
    writer = stream.writer()
    writer.acquire()
    other = IcebergTable(stream.spark, stream.spec.table)
    branch = heads(other)[writer.branch]
    mine = Raced(stream, lambda: commit(other, {"sluice.kind": "batch"}, writer.branch))
    with raising(CommitRefused):
        mine.change_refs({writer.branch: branch}, {writer.branch: None})
    assert heads(other)[writer.branch] not in (None, branch)
