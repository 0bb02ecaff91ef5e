"""Blocks of the documentation that are copied as they are: each is of the language that it says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from local.base import REPO

PAGES = sorted((REPO / "docs").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_block_is_read_as_its_language(page: Path) -> None:
    failed = []
    for language, text in re.findall(r"^```(toml|yaml)\n(.*?)^```$", page.read_text(), re.M | re.S):
        try:
            (tomllib.loads if language == "toml" else yaml.safe_load)(text)
        except (ValueError, yaml.YAMLError) as error:
            failed.append((text[:60], str(error)))
    assert not failed
