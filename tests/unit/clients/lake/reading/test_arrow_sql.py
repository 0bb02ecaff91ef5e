"""SQL over Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import pyarrow as pa
import pytest

from sluice.clients.lake.reading import arrow_sql
from sluice.clients.lake.reading.arrow_sql import open_sql
from sluice.core.errors import Unreachable


def reader(batches: Iterator[pa.RecordBatch]) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(pa.schema([("id", pa.string())]), batches)


def test_a_readers_error_keeps_its_type() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"id": ["a"]})
        raise Unreachable("S3 does not answer")

    with open_sql() as sql, pytest.raises(Unreachable):
        sql.rows("select count(*) from source", source=reader(batches()))


def test_more_than_the_memory_limit_goes_to_disk() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(40):
            yield pa.RecordBatch.from_pydict({"id": [f"{row:064}" for row in range(number, 400_000, 40)]})

    with patch.object(arrow_sql, "MEMORY_LIMIT", "24MB"), open_sql() as sql:
        sql.rows("create table ids as from source", source=reader(batches()))
        assert sql.rows("select count(distinct id) from ids") == [(400_000,)]
        assert sql.rows("select sum(size) > 0 from duckdb_temporary_files()") == [(True,)]
