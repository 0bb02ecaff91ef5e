"""Commits of another program to a table, as the compaction of a managed catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestWriter,
    ManifestWriterV2,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.typedef import Record

EVERY_ROW = AlwaysTrue()


def rewrite(
    table: Table,
    rows: pa.Table | None = None,
    where: BooleanExpression | str = EVERY_ROW,
    properties: Mapping[str, str] | None = None,
    *,
    is_listed_twice: bool = False,
) -> int:
    """The files that may have rows of ``where`` become one, with ``rows``, by default with those of theirs;
    the snapshot says ``replace``, which PyIceberg itself never does. Returns its id. ``is_listed_twice``:
    the new file, by a mistake of the program."""
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
                for _ in range(2 if is_listed_twice else 1):
                    update.append_data_file(file)
    return _newest(table)


def list_again(table: Table, files: Sequence[DataFile], properties: Mapping[str, str] | None = None) -> int:
    """One more commit that adds these files, which the table has. Returns its snapshot's id."""
    with (
        table.transaction() as transaction,
        transaction.update_snapshot(dict(properties or {})).fast_append() as update,
    ):
        for file in files:
            update.append_data_file(file)
    return _newest(table)


class _DeletesWriter(ManifestWriterV2):
    """PyIceberg itself writes no manifest of deleted rows."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def delete_rows(
    table: Table, of: str, positions: Sequence[int], properties: Mapping[str, str] | None = None
) -> int:
    """Delete these rows of the data file ``of``, merge-on-read, as Spark does. Returns the snapshot's id."""
    kinds = [("file_path", pa.string(), 2147483546), ("pos", pa.int64(), 2147483545)]
    schema = pa.schema(
        [pa.field(name, kind, False, {"PARQUET:field_id": str(number)}) for name, kind, number in kinds]
    )
    path = Path(of.removeprefix("file://")).with_name(f"deletes-{uuid4()}.parquet")
    rows = {"file_path": [of] * len(positions), "pos": list(positions)}
    pq.write_table(pa.table(rows, schema=schema), path)
    deletes = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=path.as_uri(),
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=len(positions),
        file_size_in_bytes=path.stat().st_size,
    )
    deletes.spec_id = table.spec().spec_id
    with (
        table.transaction() as transaction,
        transaction.update_snapshot(dict(properties or {})).fast_append() as update,
    ):

        def writer(spec: PartitionSpec) -> ManifestWriter:
            output, codec = update.new_manifest_output(), update._compression
            return _DeletesWriter(spec, update.schema(), output, update.snapshot_id, codec)

        update.new_manifest_writer = writer  # type: ignore[method-assign]
        update.append_data_file(deletes)
    return _newest(table)


def _newest(table: Table) -> int:
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id
