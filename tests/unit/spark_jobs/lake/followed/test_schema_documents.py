"""The schema ids that a table's property has no space for are in a document beside the table."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.schema_versions.offsets import SchemaOffsets
from spark_jobs.common.lake.followed import schema_documents
from spark_jobs.common.spark.failures import LakeFileMissing
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising

LOCATION = "s3://lake/raw/t"


def more(known: SchemaOffsets, schema_id: int) -> SchemaOffsets:
    return known.more({schema_id: {0: (schema_id, schema_id)}}, OffsetRanges.of({0: [(0, 10)]}), schema_id)


def test_each_document_has_the_ids_of_the_one_before() -> None:
    s3 = MemoryS3()
    first = schema_documents.moved(s3.as_client(), LOCATION, more(SchemaOffsets(), 7))
    second = schema_documents.moved(s3.as_client(), LOCATION, more(first, 8))
    assert (first.ids, second.ids) == ({}, {})
    s3.modified.update(dict.fromkeys(s3.objects, datetime.now(UTC)))
    # As an attempt that crashed before its commit does it again.
    assert schema_documents.moved(s3.as_client(), LOCATION, more(first, 8)) == second
    keys = {f"raw/t/schema-offsets/{one.document}.json" for one in (first, second)}
    assert {key for _, key in s3.objects} == keys
    third = schema_documents.moved(s3.as_client(), LOCATION, more(second, 9))
    text = s3.objects["lake", f"raw/t/schema-offsets/{third.document}.json"]
    assert text == b'[[7,7,{"0":[7,7]}],[8,8,{"0":[8,8]}],[9,9,{"0":[9,9]}]]'


@pytest.mark.parametrize("damage", [True, False])
def test_ids_of_a_lost_document_are_not_forgotten(damage: bool) -> None:
    s3 = MemoryS3()
    first = schema_documents.moved(s3.as_client(), LOCATION, more(SchemaOffsets(), 7))
    key = f"raw/t/schema-offsets/{first.document}.json"
    if damage:
        s3.objects["lake", key] = b"[]"
    named = first if damage else replace(first, document="0" * 64)
    with raising(LakeFileMissing, f"{LOCATION}/schema-offsets/{named.document}.json", "Fix: "):
        schema_documents.moved(s3.as_client(), LOCATION, more(named, 8))
