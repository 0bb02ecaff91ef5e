"""A file of which a load needs both the offsets and the rows is read once."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import pytest

from sluice.clients.lake import counting
from sluice.clients.lake.reading import files
from sluice.core.offsets.ranges import OffsetRanges
from sluice.loads.sources.base import Counted
from sluice.loads.verification.checks import LoadFiles, check_offsets
from tests.support import lake as lakes

SPEC = cast("Any", SimpleNamespace(table=lakes.TABLE, quarantine_table=lakes.QUARANTINE))
A, B = "a" * 16, "b" * 16


def load(folder: Path, counted: Counted = Counted.ROWS) -> LoadFiles:
    """Files of source A: one that is clear, one with a gap between its bounds, and one of both sources; of B
    alone one with a gap."""
    lake = lakes.make(folder)
    for rows, source in (([0, 1], A), ([2, 4], A), ([5, 7], B)):
        said = lakes.summary("batch", 1, {0: 9}, ranges={0: (0, 9)})
        lakes.append(lake, [(0, offset) for offset in rows], said, source)
    source = cast(
        "Any", SimpleNamespace(source_id=A, start_offsets={}, head=lambda name: None, COUNTED=counted)
    )
    return LoadFiles.plan(lake, SPEC, [source], OffsetRanges.of({0: [(0, 8)]}))


@pytest.mark.parametrize("few", [0, 1_000_000], ids=["by itself", "with others"])
def test_a_file_is_read_once_for_offsets_and_rows(
    tmp_path: Path, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the source's id if that is known by its bounds."""
    monkeypatch.setattr(counting, "MIN_ROWS_OF_ONE", few)
    made = load(tmp_path)
    with patch.object(files, "read", wraps=files.read) as read:
        found = check_offsets(made)
        assert made.published[A].present.ranges().pairs() == ((0, 3), (4, 5))
    asked = [(call.args[2], len(call.kwargs["tasks"])) for call in read.call_args_list]
    both = (
        (files.PARTITION, files.OFFSET, files.ROW)
        if few == 0
        else (files.PARTITION, files.OFFSET, files.SOURCE, files.ROW)
    )
    # The quarantine's rows come first.
    assert asked[1:] == [(both, 1), ((files.PARTITION, files.OFFSET), 1), ((files.SOURCE, files.ROW), 1)]
    assert (str(found.verification.gaps), found.read) == ("0=[3,4),[6,7)", 2)


def test_of_a_load_whose_offsets_count_no_rows_are_read(tmp_path: Path) -> None:
    made = load(tmp_path, Counted.OFFSETS)
    with patch.object(files, "read", wraps=files.read) as read:
        check_offsets(made)
    assert [call.args[2] for call in read.call_args_list][1:] == [(files.PARTITION, files.OFFSET)]


@pytest.mark.parametrize("held", [[4, 5, 7], [4, 6, 7]], ids=["exact", "one lost, another in both tables"])
def test_a_file_with_as_many_rows_as_offsets_that_are_not_quarantined_is_read(
    tmp_path: Path, held: list[int]
) -> None:
    lake = lakes.make(tmp_path)
    for rows, until in (([0, 1, 2, 3], 4), (held, 8)):
        said = lakes.summary("batch", 1, {0: until}, ranges={0: (until - 4, until)})
        lakes.append(lake, [(0, offset) for offset in rows], said)
    row = {"stage": "consumer", "reason": "r", "_kafka_partition": 0, "_kafka_offset": 6}
    lakes.quarantine(lake, [row])
    found = check_offsets(LoadFiles.at(lake, SPEC, OffsetRanges.of({0: [(0, 8)]})))
    lost, both = ("(empty)",) * 2 if held[1] == 5 else ("0=[5,6)", "0=[6,7)")
    assert found.read == 1
    assert (str(found.verification.gaps), str(found.verification.duplicates)) == (lost, both)
