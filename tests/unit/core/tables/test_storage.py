"""Objects as they were written, and their number within a budget."""

from __future__ import annotations

import pytest

from sluice.core.tables.storage import BudgetCheck, WrittenObject, check_object, metadata_files

ONE = ("e1", 5, True)


@pytest.mark.parametrize(
    ("versions", "size", "problem"),
    [
        ([ONE], 5, None),
        ([ONE], None, None),
        ([ONE, ("e1", 5, False)], 5, None),
        ([ONE, ("e2", 5, False)], 5, "was overwritten with other content"),
        ([ONE], 6, "has 5 bytes, and the metadata says 6"),
        ([("e1", 5, False)], 5, "is missing"),
        ([], 5, "is missing"),
    ],
)
def test_an_object_is_as_it_was_written_or_what_is_wrong_is_named(
    versions: list[tuple[str, int, bool]], size: int | None, problem: str | None
) -> None:
    assert check_object(WrittenObject("s3://b/k", size), versions, 0).problem == problem


def test_metadata_files_belong_to_the_commit_before_them() -> None:
    log = [100, 110, 200, 210, 300]
    assert metadata_files(log, 100, 200) == 2
    assert metadata_files(log, 200, 300) == 2
    assert metadata_files(log, 300, None) == 1
    assert metadata_files(log, 90, 100) is None
    assert metadata_files([], 1, None) is None


@pytest.mark.parametrize(
    ("value", "ok", "words"),
    [
        (20, True, "versions is 20, the limit is 20"),
        (21, False, "versions is 21"),
    ],
)
def test_what_is_over_or_unseen_is_not_within_its_budget(value: float, ok: bool, words: str) -> None:
    line = BudgetCheck("versions", value, 20)
    assert line.ok is ok
    assert words in line.message()
