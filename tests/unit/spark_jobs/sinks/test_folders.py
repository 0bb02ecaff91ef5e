"""A folder's file: what was given to it, once, however it was cut."""

from __future__ import annotations

import numpy
import pyarrow as pa
import pytest
from pyarrow import parquet

from spark_jobs.common.sinks import parquet_folders
from spark_jobs.common.sinks.parquet_folders import HASH, File


@pytest.mark.parametrize("sizes", [[1], [999], [1_000], [400, 400, 400], [250] * 13, [2_500, 1]])
def test_a_file_holds_its_rows_once_in_their_order_and_in_bounded_groups(
    sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    total = sum(sizes)
    # Hashes of both signs, whose sum is beyond 64 bits.
    hashes = numpy.arange(total, dtype=numpy.int64) * 3 - 2**62
    rows = pa.record_batch({"hit": pa.array(range(total)), HASH: pa.array(hashes)})
    begins = [sum(sizes[:number]) for number in range(len(sizes))]
    parts = (rows.slice(begin, size) for begin, size in zip(begins, sizes, strict=True))
    monkeypatch.setattr(parquet_folders, "ROWS_PER_GROUP", 1_000)
    made = File(parts)
    assert (made.rows, made.hash) == (total, sum(int(value) for value in hashes) % 2**64)
    with made.body as body:
        body.seek(0)
        file = parquet.ParquetFile(body)
        assert file.read().to_pydict() == {"hit": list(range(total))}
        groups = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
    assert sum(groups) == total
    assert all(group >= 1_000 for group in groups[:-1])
    assert max(groups) < 1_000 + max(sizes)
