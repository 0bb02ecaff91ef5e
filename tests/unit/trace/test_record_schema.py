"""The schema of a record that the topic has lost, by the offsets of each schema's records."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.schema_versions.offsets import SchemaOffsets
from sluice.core.tables.batches import Batch
from sluice.trace import record_schema
from sluice.trace.record_schema import Record, Recorded

OFFSETS = SchemaOffsets().more({7: {0: (10, 16)}, 3: {0: (14, 19)}}, OffsetRanges.of({0: [(10, 30)]}), at=1)
BATCH = Batch(1, 1, "w1_a", 1, OffsetRanges.of({0: [(10, 30)]}), {0: 30}, 20, 1, 0, 1)


def said(offset: int, has_changes: bool = False, batch: Batch | None = BATCH) -> str:
    return Recorded(OFFSETS, has_changes).answer(Record(0, offset, batch), "id {}".format, "gone")


@pytest.mark.parametrize(
    ("offset", "words"),
    [
        (12, "id 7, by the offsets of their records (gone)"),
        (15, "id 3 or id 7, by the offsets of their records (gone)"),
        (18, "id 3, by the offsets of their records (gone)"),
        (25, "not known: gone"),
        (2, "not known: gone"),
    ],
)
def test_one_range_that_covers_an_offset_is_certain(offset: int, words: str) -> None:
    assert said(offset) == words


def test_a_row_that_may_have_come_back_from_quarantine_is_of_none_for_certain() -> None:
    """Its batch rejected it, and did not know its id."""
    perhaps = "not known: gone; by the offsets of their records perhaps id 7"
    assert said(12, has_changes=True) == "id 7, by the offsets of their records (gone)"
    assert said(12, has_changes=True, batch=replace(BATCH, rows=19)) == perhaps
    assert said(12, has_changes=True, batch=None) == perhaps
    assert said(12, has_changes=False, batch=replace(BATCH, rows=19)).startswith("id 7, ")


def test_offsets_before_the_first_that_was_recorded_are_of_none_for_certain() -> None:
    more = OFFSETS.more({7: {0: (5, 5)}}, OffsetRanges.of({0: [(40, 50)]}), at=2)
    found = Recorded(more).answer(Record(0, 12, BATCH), "id {}".format, "gone")
    assert found == "not known: gone; by the offsets of their records perhaps id 7"


def test_the_version_of_a_mirrored_topics_record_is_one_of_its_declared_subjects() -> None:
    registry: Any = SimpleNamespace(uses=lambda schema_id: [("a-value", 2), ("orders-value", 5)])
    said = record_schema._versions(registry, ("orders-value", "more-value"), 7)
    assert said == ", version 5 of subject orders-value"
    assert "a-value" in record_schema._versions(registry, ("eu.orders-value",), 7)
