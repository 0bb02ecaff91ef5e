"""What the taxi demo reads from the lake."""

from __future__ import annotations

from pathlib import Path

from local.demo.figures import Content, content
from tests.support import lake as lakes

MINE, OTHER = "a" * 16, "b" * 16


def aside(place: int | None, row: int | None, reason: str, source: str | None = MINE) -> dict[str, object]:
    partition = None if place is None else 0
    return {
        "stage": "topic", "reason": reason, "_kafka_partition": partition, "_kafka_offset": place,
        "_source_id": source, "_source_row": row, "object": "o", "line": row,
    }  # fmt: skip


def test_rows_offsets_and_what_is_there_again(tmp_path: Path) -> None:
    lake = lakes.make(tmp_path)
    lakes.append(lake, [(0, 0), (0, 1)], lakes.summary("batch", 1, {0: 2}), source=MINE)
    lakes.append(lake, [(0, 2), (0, 2)], source=OTHER)
    lakes.append(lake, [(0, 7)], source=None)
    # Row 1 of the demo's object is published, refused, and came again.
    refused = [aside(None, 1, "no number"), aside(None, 9, "no number"), aside(4, 1, "repeat: of 0:1")]
    lakes.quarantine(lake, [*refused, aside(5, 3, "no Avro", source=None)])
    tables = (lake.table(lakes.TABLE), lake.table(lakes.QUARANTINE))
    assert content(*tables, MINE, {0: (0, 6)}) == Content(
        lake_rows=5, quarantined=3, of_source_rows=2, of_source_quarantined=2, gaps=1, duplicates=2
    )
