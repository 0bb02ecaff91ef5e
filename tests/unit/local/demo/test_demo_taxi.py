"""What the taxi demo reads from the lake, and what must hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from local.demo.taxi import Content, content, result
from tests.support import lake as lakes

MINE, OTHER = "a" * 16, "b" * 16
GREEN = Content(lake_rows=98, quarantined=2, of_source_rows=98, of_source_quarantined=2, gaps=0, duplicates=0)


def quarantined(
    place: int | None, row: int | None, reason: str, source: str | None = MINE
) -> dict[str, object]:
    partition = None if place is None else 0
    return {
        "stage": "consumer", "reason": reason, "_kafka_partition": partition, "_kafka_offset": place,
        "_source_id": source, "_source_row": row, "object": "o", "line": row,
    }  # fmt: skip


def test_rows_offsets_and_what_is_there_again(tmp_path: Path) -> None:
    lake = lakes.make(tmp_path)
    lakes.append(lake, [(0, 0), (0, 1)], lakes.summary("batch", 1, {0: 2}), source=MINE)
    lakes.append(lake, [(0, 2), (0, 2)], source=OTHER)
    lakes.append(lake, [(0, 7)], source=None)
    # Row 1 of the demo's object is published, refused, and came again.
    refused = [
        quarantined(None, 1, "no number"),
        quarantined(None, 9, "no number"),
        quarantined(4, 1, "duplicate: of 0:1"),
    ]
    lakes.quarantine(lake, [*refused, quarantined(5, 3, "no Avro", source=None)])
    tables = (lake.table(lakes.TABLE), lake.table(lakes.QUARANTINE))
    assert content(*tables, MINE, {0: (0, 6)}) == Content(
        lake_rows=5, quarantined=3, of_source_rows=2, of_source_quarantined=2, gaps=1, duplicates=2
    )


def test_green_whatever_other_sources_there_are() -> None:
    green = result(100, 98, GREEN)
    assert green.failures == []
    keys = "source_rows topic_records lake_rows quarantined gaps duplicates"
    assert " ".join(green.to_json()) == keys
    assert result(100, 5000, replace(GREEN, lake_rows=5000)).failures == []


@pytest.mark.parametrize(
    ("rows", "change", "said"),
    [
        (0, {"of_source_rows": 0, "of_source_quarantined": 0}, "no rows"),
        (100, {"gaps": 3}, "3 offsets"),
        (100, {"duplicates": 1}, "1 records are in the lake more than once"),
        (100, {"of_source_rows": 97}, "100 rows in the source, but 97 in the lake and 2 in quarantine"),
        (100, {"of_source_quarantined": 3}, "100 rows in the source, but 98 in the lake and 3 in quarantine"),
    ],
)
def test_each_thing_that_must_not_be(rows: int, change: dict[str, Any], said: str) -> None:
    [failure] = result(rows, 98, replace(GREEN, **change)).failures
    assert said in failure
