"""What maintenance did to a table, read back from its manifests and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from sluice.clients.lake.catalog import Lake
from sluice.clients.lake.commits import Head
from sluice.clients.lake.snapshots import rewrites as compaction
from sluice.core.errors import Missing
from sluice.core.tables.storage import REWRITE_ID, Rewrite
from tests.support import lake as lakes
from tests.support.raising import raising


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Four batches of a writer, a file each: three rows of partition 0, three of partition 1."""
    made = lakes.make(tmp_path)
    for start in (0, 3):
        for partition in (0, 1):
            rows = [(partition, start + number) for number in range(3)]
            lakes.append(made, rows, lakes.summary("batch", 1, {0: 6, 1: 6}))
    return made


def rewrite(
    lake: Lake, rows: list[tuple[int, int]] | None = None, chosen: str = "true", name: str = ""
) -> None:
    """The files with the ``chosen`` rows become one, with these rows: by default with those of theirs.
    ``name``: the id of the rewrite."""
    properties = {REWRITE_ID: name} if name else {}
    table = lake.catalog.load_table(lakes.TABLE)
    scan = table.scan() if chosen == "true" else table.scan(row_filter=chosen)
    data = scan.to_arrow()
    if rows is not None:
        picked = [{"fare_amount": 1.0, "_kafka_partition": p, "_kafka_offset": o} for p, o in rows]
        data = pa.Table.from_pylist(picked, schema=lakes.ROWS)
    with table.transaction() as transaction, transaction.update_snapshot(properties).overwrite() as update:
        for task in list(scan.plan_files()):
            update.delete_data_file(task.file)
        for file in _dataframe_to_data_files(table.metadata, data, table.io, update.commit_uuid):
            update.append_data_file(file)


def since(lake: Lake, head: Head | None, *also: str) -> list[Rewrite]:
    return compaction.since(replacing(lake.table(lakes.TABLE)), head, also=also)


def replacing(table: Table) -> Table:
    """PyIceberg writes no replace: its overwrites are taken for such."""
    snapshots: list[Snapshot] = []
    for snapshot in table.metadata.snapshots:
        assert snapshot.summary is not None
        if snapshot.summary.operation is Operation.OVERWRITE:
            given: dict[str, Any] = {"operation": Operation.REPLACE, **snapshot.summary.additional_properties}
            snapshot = snapshot.model_copy(update={"summary": type(snapshot.summary)(**given)})
        snapshots.append(snapshot)
    table.metadata = table.metadata.model_copy(update={"snapshots": snapshots})
    return table


def test_the_same_rows_in_one_file(lake: Lake) -> None:
    before = lake.heads(lakes.TABLE)[lakes.TABLE]
    rewrite(lake)
    (found,) = since(lake, before)
    assert found.problems() == []
    assert (found.operation, found.total_before, found.total_after) == ("replace", 12, 12)
    assert (found.removed.files, found.added.files) == (4, 1)
    assert found.removed.records == found.added.records == 12
    assert found.removed.digest == found.added.digest != 0


ROWS = [(partition, offset) for partition in (0, 1) for offset in range(6)]
WRONG = {
    "a row too few": (ROWS[1:], "the table had 12 rows and has 11"),
    "a row twice, another not": ([*ROWS[1:], ROWS[1]], "new files differ"),
    "a row of another partition": ([(2, 0), *ROWS[1:]], "new files differ"),
    "partition and offset exchanged": ([(o, p) for p, o in ROWS], "new files differ"),
    "offsets moved from one to another": (
        [(0, 1), (0, 4), *[row for row in ROWS if row not in [(0, 2), (0, 3)]]], "new files differ",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG.keys())
def test_other_rows(lake: Lake, case: Any) -> None:
    rows, words = case
    before = lake.heads(lakes.TABLE)[lakes.TABLE]
    rewrite(lake, rows)
    (found,) = since(lake, before)
    assert words in "; ".join(found.problems())


def test_the_writers_batches_are_none(lake: Lake) -> None:
    before = lake.heads(lakes.TABLE)[lakes.TABLE]
    rewrite(lake)
    lakes.append(lake, [(0, 6)], lakes.summary("batch", 2, {0: 7, 1: 6}))
    rewrite(lake)
    found = since(lake, before)
    assert [(one.total_before, one.removed.files) for one in found] == [(12, 4), (13, 2)]
    assert since(lake, lake.heads(lakes.TABLE)[lakes.TABLE]) == []
    assert len(since(lake, None)) == 2


def test_files_that_were_left_alone_are_none_of_it(lake: Lake) -> None:
    before = lake.heads(lakes.TABLE)[lakes.TABLE]
    rewrite(lake, chosen="_kafka_partition = 1")
    (found,) = since(lake, before)
    assert found.problems() == []
    assert (found.removed.files, found.added.files, found.added.records) == (2, 1, 6)


def test_an_append_without_a_writer_is_named(lake: Lake) -> None:
    before = lake.heads(lakes.TABLE)[lakes.TABLE]
    lakes.append(lake, [(0, 6)])
    (found,) = since(lake, before)
    assert "its operation is append" in found.problems()[0]


def test_a_table_that_was_rolled_back_behind_it_is_an_error(lake: Lake) -> None:
    with raising(Missing, "snapshot 7"):
        since(lake, Head(7, 2, "w1_a"))
    assert compaction.since(lake.table(lakes.QUARANTINE), None) == []


def test_a_rewrite_before_the_run_is_compared_if_its_verification_is_missing(lake: Lake) -> None:
    rewrite(lake, name="late")
    head = lake.heads(lakes.TABLE)[lakes.TABLE]
    rewrite(lake, name="own")
    assert [one.id for one in since(lake, head)] == ["own"]
    assert [one.id for one in since(lake, head, "late")] == ["late", "own"]
    assert [one.id for one in since(lake, head, "late", "own", "expired")] == ["late", "own"]
    assert all(one.problems() == [] for one in since(lake, head, "late"))


def test_behind_a_head_that_has_expired_rewrites_are_compared(lake: Lake) -> None:
    before = lake.heads(lakes.TABLE)[lakes.TABLE]
    rewrite(lake)
    assert len(since(lake, Head(7, 0, before.writer))) == 1
