"""The schema ids of a table: what its property says, and the document that it names."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from sluice.clients.lake.schema_offsets import schema_offsets
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.schema_versions.offsets import PROPERTY, SchemaOffsets
from spark_jobs.common.lake.followed import documents
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising

LOCATION = "s3://lake/raw/t"


def table(offsets: SchemaOffsets) -> Any:
    found = SimpleNamespace(properties={PROPERTY: offsets.text()}, location=lambda: LOCATION)
    return cast("Any", found)


def made(s3: MemoryS3) -> tuple[SchemaOffsets, SchemaOffsets]:
    """A table's, with all ids, and what it says of them, the ids in a document."""
    whole = SchemaOffsets().more({7: {0: (0, 4)}}, OffsetRanges.of({0: [(0, 5)]}), 1)
    return whole, documents.moved(s3.as_client(), LOCATION, whole)


def test_ids_of_the_document_are_read() -> None:
    s3 = MemoryS3()
    whole, said = made(s3)
    assert schema_offsets(s3.as_client(), table(said)).ids == whole.ids


@pytest.mark.parametrize(("body", "said"), [(b"[]", "damaged"), (None, "it is gone")])
def test_a_document_that_is_gone_or_another_one_is_refused(body: bytes | None, said: str) -> None:
    s3 = MemoryS3()
    _, offsets = made(s3)
    (place,) = s3.objects
    if body is None:
        del s3.objects[place]
    else:
        s3.objects[place] = body
    with raising(Refused, place[1], said, "Fix: ") as caught:
        schema_offsets(s3.as_client(), table(offsets))
    assert caught.value.code is ErrorCode.LAKE_FILE_MISSING
