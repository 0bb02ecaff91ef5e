"""Offsets without a record: few in the summary, many in a document that the summary names."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from botocore.exceptions import ClientError

from sluice.core.errors import Refused
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.batches import Batch
from sluice.core.tables.without_record import MAX_CHARACTERS, WithoutRecord
from sluice.ledger.batches import BatchLog
from spark_jobs.common.lake.keep_without_record import keep
from tests.support.batches import LOCATION, batch, readers_log, writers_log
from tests.support.memory_s3 import MemoryS3

MARKERS = OffsetRanges.of({0: [(n, n + 1) for n in range(10_000, 20_000, 5)]})
MANY = WithoutRecord(MARKERS, absent=OffsetRanges.of({1: [(5, 7)]}), evidence="compact")


def test_few_are_in_the_summary() -> None:
    s3 = MemoryS3()
    few = WithoutRecord(OffsetRanges.of({0: [(1, 2)]}))
    assert keep(s3.as_client(), LOCATION, "w1_a-7", few) is few
    assert not s3.objects


def test_many_are_beside_the_table_and_readers_follow_the_summary() -> None:
    s3 = MemoryS3()
    kept = keep(s3.as_client(), LOCATION, "w1_a-7", MANY)
    assert (kept.count, len(s3.objects)) == (2002, 1)
    ((_, key),) = s3.objects
    assert key.startswith("raw/trips/without-record/w1_a-7-")
    assert len(json.dumps(kept.properties())) < MAX_CHARACTERS / 10
    one = replace(batch(7, 10_000, 20_000), without_record=kept, rows=7_998)
    assert one.rejected == 10_000 - 2002 - 7_998
    for log in (readers_log(s3, [one]), recorded(s3, one)):
        found = log.without_record(OffsetRanges.of({0: [(10_000, 10_010)], 2: [(0, 9)]}))
        assert found == WithoutRecord(OffsetRanges.of({0: [(10_000, 10_001), (10_005, 10_006)]}))
    s3.objects.pop(("lake", key))
    with pytest.raises(Refused, match=r"offsets without a record: .*it is gone"):
        readers_log(s3, [one]).without_record(MARKERS)


def recorded(s3: MemoryS3, one: Batch) -> BatchLog:
    writers_log(s3).record([one])
    return readers_log(s3, [batch(8, 20_000, 20_010)])


def test_a_batch_that_is_written_again_keeps_both() -> None:
    s3 = MemoryS3()
    first = keep(s3.as_client(), LOCATION, "w1_a-7", MANY)
    assert keep(s3.as_client(), LOCATION, "w1_a-7", MANY) == first
    assert keep(s3.as_client(), LOCATION, "w1_a-7", replace(MANY, evidence="other")) != first
    assert len(s3.objects) == 2


def test_a_store_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    s3 = MemoryS3()

    def denied(**given: object) -> None:
        raise ClientError({"Error": {"Code": "AccessDenied"}}, "PutObject")

    client = s3.as_client()
    monkeypatch.setattr(client, "put_object", denied)
    with pytest.raises(ClientError, match="AccessDenied"):
        keep(client, LOCATION, "w1_a-7", MANY)
