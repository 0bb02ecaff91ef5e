"""The generated blocks of the pages are what the generator writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest

from local.reference import pages
from local.reference.blocks import COMMAND, block, fill, table
from local.reference.settings import settings


@pytest.mark.parametrize("page", pages.PAGES)
def test_a_page_is_what_the_code_says(page: str) -> None:
    assert not pages.outdated(pages.REPO, {page: pages.PAGES[page]}), f"run {COMMAND}"


def test_a_page_that_is_not_is_found(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).write_text(block("a b", name))
    found = pages.outdated(tmp_path, {name: [lambda: {"a b": "new"}] for name in ("old", "new")})
    assert found == {tmp_path / "old": block("a b", "new")}


def test_a_block_is_exchanged_and_the_prose_around_it_stays() -> None:
    page = f"# Page\n\n{block('a b', 'old')}\n\nprose with `<!-- end -->`\n"
    assert fill(page, {"a b": "new"}) == page.replace("old", "new")


@pytest.mark.parametrize("page", ["", f"{block('a', '')}\n{block('a', '')}", block("b", "")])
def test_a_page_has_each_of_its_blocks_once(page: str) -> None:
    with pytest.raises(ValueError, match="Fix: add"):
        fill(page, {"a": "new"})


@dataclass
class Section:
    wait_seconds: Annotated[int, "how long"] = 5
    title: Annotated[str | None, "its title"] = None


@dataclass
class Declaration:
    names: Annotated[list[str], "of what"]
    section: Section | None = None


@dataclass
class Undescribed:
    names: list[str]


def test_a_key_has_its_type_default_bounds_and_meaning() -> None:
    found = [(one.key, one.type, one.default, one.bounds, one.meaning) for one in settings(Declaration)]
    assert found == [
        ("names", "list", "–", "", "of what"),
        ("section.wait_seconds", "number", "5", "1 to 31622400", "how long"),
        ("section.title", "text", "empty", "", "its title"),
    ]


def test_a_key_without_a_description_is_refused() -> None:
    with pytest.raises(LookupError, match=r"Undescribed.names has no description"):
        list(settings(Undescribed))


def test_a_cell_is_one() -> None:
    assert table(["x", "y"], [["a", "b"]]) == "| x | y |\n|---|---|\n| a | b |"
    for row in (["a", "b|c"], ["a", "b\nc"], ["a"]):
        with pytest.raises(ValueError, match="no row of x, y"):
            table(["x", "y"], [row])
