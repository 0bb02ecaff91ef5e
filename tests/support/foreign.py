"""Commits of another program to a table, as the compaction of a managed catalog."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Summary

EVERY_ROW = AlwaysTrue()


def rewrite(
    table: Table,
    rows: pa.Table | None = None,
    where: BooleanExpression | str = EVERY_ROW,
    properties: Mapping[str, str] | None = None,
) -> int:
    """The files that may have rows of ``where`` become one, with ``rows``, by default with those of theirs;
    the snapshot says ``replace``, which PyIceberg itself never does. Returns its id."""
    scan = table.scan(row_filter=where)
    tasks = list(scan.plan_files())
    data = scan.to_arrow() if rows is None else rows
    with (
        table.transaction() as transaction,
        transaction.update_snapshot(dict(properties or {})).overwrite() as update,
    ):
        summarized = update._summary

        def summary(given: Mapping[str, str]) -> Summary:
            return Summary(Operation.REPLACE, **summarized(dict(given)).additional_properties)

        update._summary = summary  # type: ignore[method-assign, assignment]
        for task in tasks:
            update.delete_data_file(task.file)
        if data.num_rows:
            for file in _dataframe_to_data_files(table.metadata, data, table.io, update.commit_uuid):
                update.append_data_file(file)
    table.refresh()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id
