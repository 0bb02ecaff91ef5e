"""What a REST catalog is asked to compare: all refs that a commit counts on, not those alone that it sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from sluice.config.platform_sections.catalog import REST, SQL
from spark_jobs.common.lake.iceberg import MAIN, CommitRefused, IcebergTable
from tests.support.lakehouse import Stream, commit
from tests.support.raising import raising

pytestmark = pytest.mark.parametrize(
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


def test_batches_are_published(stream: Stream) -> None:
    running = stream.run(stream.writer())
    for _ in range(3):
        stream.send(2)
        running.query.processAllAvailable()
    stream.assert_exact(6)


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


def test_a_branch_that_another_client_has_moved_is_not_removed(stream: Stream) -> None:
    writer = stream.writer()
    writer.acquire()
    other = IcebergTable(stream.spark, stream.spec.table)
    branch = heads(other)[writer.branch]
    mine = Raced(stream, lambda: commit(other, {"sluice.kind": "batch"}, writer.branch))
    with raising(CommitRefused):
        mine.change_refs({writer.branch: branch}, {writer.branch: None})
    assert heads(other)[writer.branch] not in (None, branch)
