"""A load's offsets in files that another program wrote, as a managed catalog's compaction."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.storage import REWRITE_ID
from sluice.loads.verification.checks import LoadFiles, OffsetCheck, check_offsets
from tests.support import foreign
from tests.support import lake as lakes

SPEC = cast("Any", SimpleNamespace(table=lakes.TABLE, quarantine_table=lakes.QUARANTINE))


def check(folder: Path, offsets: list[int], properties: dict[str, str]) -> OffsetCheck:
    """The offsets [0,8), after a rewrite of both batches into one file with these."""
    lake = lakes.make(folder)
    for start in (0, 4):
        said = lakes.summary("batch", 1, {0: start + 4}, ranges={0: (start, start + 4)})
        lakes.append(lake, [(0, start + number) for number in range(4)], said)
    values = [dict(zip(lakes.ROWS.names, (1.0, 0, one, "a" * 16, one), strict=True)) for one in offsets]
    table = lake.catalog.load_table(lakes.TABLE)
    foreign.rewrite(table, pa.Table.from_pylist(values, schema=lakes.ROWS), properties=properties)
    return check_offsets(LoadFiles.at(lake, SPEC, OffsetRanges.of({0: [(0, 8)]})))


def test_a_file_with_as_many_records_as_offsets_between_its_bounds_is_read(tmp_path: Path) -> None:
    found = check(tmp_path, [0, 1, 2, 2, 4, 5, 6, 7], {})
    assert found.read == 1
    assert str(found.verification.gaps) == "0=[3,4)"
    assert str(found.verification.duplicates) == "0=[2,3)"


@pytest.mark.parametrize(("properties", "read"), [({}, 1), ({REWRITE_ID: "own"}, 0)])
def test_a_rewrite_with_the_same_rows_passes_and_an_own_one_is_not_read(
    tmp_path: Path, properties: dict[str, str], read: int
) -> None:
    found = check(tmp_path, list(range(8)), properties)
    assert (found.verification.is_ok, found.read) == (True, read)
