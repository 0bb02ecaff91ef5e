"""The generated blocks of the pages are what the generator writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from local.reference import pages
from local.reference.blocks import COMMAND, block, fill, table


@pytest.mark.parametrize("page", pages.PAGES)
def test_a_page_is_what_the_code_says(page: str) -> None:
    assert not pages.outdated(pages.REPO, {page: pages.PAGES[page]}), f"run {COMMAND}"


def test_a_page_that_is_not_is_found(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).write_text(block("a b", name))
    found = pages.outdated(tmp_path, dict.fromkeys(["old", "new"], lambda: {"a b": "new"}))
    assert found == {tmp_path / "old": block("a b", "new")}


def test_a_block_is_exchanged_and_the_prose_around_it_stays() -> None:
    page = f"# Page\n\n{block('a b', 'old')}\n\nprose with `<!-- end -->`\n"
    assert fill(page, {"a b": "new"}) == page.replace("old", "new")


@pytest.mark.parametrize("page", ["", f"{block('a', '')}\n{block('a', '')}", block("b", "")])
def test_a_page_has_each_of_its_blocks_once(page: str) -> None:
    with pytest.raises(ValueError, match="Fix: add"):
        fill(page, {"a": "new"})


def test_a_cell_is_one() -> None:
    assert table(["x", "y"], [["a", "b"]]) == "| x | y |\n|---|---|\n| a | b |"
    for row in (["a", "b|c"], ["a", "b\nc"], ["a"]):
        with pytest.raises(ValueError, match="no row of x, y"):
            table(["x", "y"], [row])
