"""Batches that Python alone reads, decodes and writes, on real services."""

from __future__ import annotations

import pytest

from spark_jobs.common.consumer import writer as writer_module
from tests.support.lakehouse import Stream


@pytest.fixture
def direct(stream: Stream) -> Stream:
    stream.is_direct = True
    return stream


def test_a_small_batch_is_one_file_and_a_large_one_a_file_per_partition(
    direct: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = list[int]()
    for small_batch in (6, 5):
        monkeypatch.setattr(writer_module, "SMALL_BATCH", small_batch)
        direct.send(3)
        writer = direct.writer()
        direct.run(writer).query.stop()
        files.append(len(writer.table.added_paths(writer.published)))
    assert files == [1, 2]
    direct.assert_exact(6)
