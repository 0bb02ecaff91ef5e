"""How many snapshots and files a table holds, and when that is said of who maintains it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sluice.maintenance.held import MANY_FILES, MANY_SNAPSHOTS, OLD, SMALL_BYTES, Held
from tests.support import lake as lakes

NOW = datetime(2026, 11, 27, tzinfo=UTC)
SNAPSHOTS = "101 snapshots are kept, the oldest since 2026-10-27: the catalog may expire none"
FILES = "main has 10001 data files of 999999 bytes on average: the catalog may compact none"


def test_it_is_of_the_table_and_its_newest_snapshot(tmp_path: Path) -> None:
    lake = lakes.make(tmp_path)
    for number in range(3):
        lakes.append(lake, [(0, number)])
    held = Held.of(lake.table(lakes.TABLE))
    assert (held.snapshots, held.data_files) == (3, 3)
    assert held.size == sum(path.stat().st_size for path in tmp_path.rglob("*.parquet"))
    assert held.oldest is not None
    assert held.message() == "3 snapshots are kept, main has 3 data files"
    assert held.growth(datetime.now(UTC)) == []
    assert Held.of(lake.table(lakes.QUARANTINE)) == Held(0, None, None, None)


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (Held(MANY_SNAPSHOTS + 1, NOW - OLD - timedelta(days=1), 1, 1), [SNAPSHOTS]),
        (Held(MANY_SNAPSHOTS + 1, NOW - OLD, 1, 1), []),
        (Held(MANY_SNAPSHOTS, NOW - 9 * OLD, 1, 1), []),
        (Held(1, NOW, MANY_FILES + 1, (MANY_FILES + 1) * (SMALL_BYTES - 1)), [FILES]),
        (Held(1, NOW, MANY_FILES + 1, (MANY_FILES + 1) * SMALL_BYTES), []),
        (Held(1, NOW, MANY_FILES, 1), []),
        (Held(1, NOW, MANY_FILES + 1, None), []),
    ],
)
def test_growth_is_said_of_much_and_old(held: Held, said: list[str]) -> None:
    found = held.growth(NOW)
    assert len(found) == len(said)
    assert all(line.startswith(words) for line, words in zip(found, said, strict=True))
