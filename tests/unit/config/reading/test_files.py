"""Private files: whole or as they were, and readable for their user alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sluice.config.reading.files import write_private
from tests.support.raising import raising


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """In a folder that is not there yet; at the end it has nothing else, and no other user may read it."""
    path = tmp_path / "conf" / "x.toml"
    before = os.umask(0)
    yield path
    os.umask(before)
    assert list(path.parent.iterdir()) == [path]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_private_files_are_private_also_when_they_were_not(file: Path) -> None:
    assert write_private(file, "old")
    file.chmod(0o644)
    assert write_private(file, "old")
    assert not write_private(file, "old")
    assert write_private(file, "new")
    assert file.read_text() == "new"


def test_a_file_that_is_no_text_is_replaced(file: Path) -> None:
    write_private(file, "old")
    file.write_bytes(b"\xff\0")
    assert write_private(file, "\N{SNOWMAN}")
    assert file.read_text(encoding="utf-8") == "\N{SNOWMAN}"


def test_a_write_that_fails_leaves_the_file_as_it_was(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_private(file, "old")

    def full(descriptor: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with raising(OSError, "no space"):
        write_private(file, "new")
    assert file.read_text() == "old"


def test_writers_at_once_do_not_mix(file: Path) -> None:
    texts = [str(number) * 100_000 for number in range(10)]
    with ThreadPoolExecutor(10) as pool:
        assert all(pool.map(lambda text: write_private(file, text), texts))
    assert file.read_text() in texts
