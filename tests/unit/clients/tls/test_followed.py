"""Files that are read again: when, and what is said of those that cannot be."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from sluice.clients.tls.followed import Followed


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "ca.pem"
    found.write_text("1")
    return found


def replace(file: Path, text: str) -> None:
    other = file.with_suffix(".new")
    other.write_text(text)
    other.replace(file)


def test_files_are_read_once_after_each_replacement(file: Path) -> None:
    read: list[str] = []
    followed = Followed((str(file),), "the CA", lambda: read.append(file.read_text()))
    assert not followed.follow(), "they are as new as the object"
    for text in ("2", "3"):
        replace(file, text)
        assert followed.is_due()
        assert followed.follow()
        assert not followed.follow()
    assert read == ["2", "3"]
    followed.forget()
    assert followed.follow()
    assert read == ["2", "3", "3"]


def test_what_cannot_be_read_is_said_once_and_looked_at_again(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def read() -> None:
        if (text := file.read_text()) == "half":
            raise ValueError(f"it is {text}\nand a stack")

    followed = Followed((str(file),), "the CA", read)
    caplog.set_level(logging.INFO)
    replace(file, "half")
    assert [followed.follow() for _ in range(3)] == [False] * 3
    file.unlink()
    assert not followed.is_due()
    assert [followed.follow() for _ in range(2)] == [False] * 2
    replace(file, "half")
    assert not followed.follow()
    replace(file, "whole")
    assert followed.follow()
    half = "the CA not read again, those before are in use: it is half"
    gone, again = caplog.messages[1], f"the CA read again files={file}"
    assert caplog.messages == [half, gone, half, again]
    assert gone == f"the CA not read again, those before are in use: {file} is missing"
