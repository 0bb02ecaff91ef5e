"""The repository's streams, one that there is not, and declarations that change while a process runs."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from sluice.config import folders, overrides, streams
from sluice.config.reading import files
from sluice.config.reading.toml import ConfigError
from tests.support import declarations
from tests.support.raising import raising


def test_every_stream_of_the_repository_is_well_declared() -> None:
    assert {"nyc_taxi", "wiki_changes"} <= set(streams.names())
    for name in streams.names():
        spec = streams.load(name)
        assert spec.schema_file.is_file()


def test_an_unknown_stream_is_named_with_the_known_ones() -> None:
    with raising(ConfigError, "'taxi'", *streams.names()):
        streams.load("taxi")


def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are read from now on."""
    found: list[str] = []
    read = files.regular

    def counted(path: Path | str) -> tuple[bytes, bool]:
        found.append(Path(path).name)
        return read(path)

    monkeypatch.setattr(files, "regular", counted)
    return found


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of streams, with two."""
    monkeypatch.setattr(folders, "STREAMS", tmp_path)
    for name in ("x", "y"):
        declarations.make(tmp_path, name)
    return tmp_path


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if each file had been there for an hour when it is read."""
    monkeypatch.setattr(streams, "SETTLED_SECONDS", -1.0)


@pytest.mark.usefixtures("settled")
def test_a_declaration_is_read_again_only_when_a_file_of_its_folder_changed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = streams.load_valid()
    read = texts(monkeypatch)
    again = streams.load_valid()
    assert (again.specs, again.reasons, read) == (first.specs, [], [])
    (root / "x" / "stream.toml").write_text((root / "x" / "stream.toml").read_text() + "\n# another\n")
    assert streams.load_valid().specs == first.specs
    assert set(read) == {"stream.toml", first.specs[0].schema}
    read.clear()
    # An import of its schema, say.
    (root / "x" / "more.proto").write_text("")
    streams.load_valid()
    assert "stream.toml" in read


@pytest.mark.usefixtures("settled")
def test_an_edit_that_keeps_the_time_and_the_length_is_seen(root: Path) -> None:
    """As of `rsync -t`, `cp -p`, and a checkout within a second of the last one."""
    file = root / "x" / "stream.toml"
    text = file.read_text()
    for title in ("A", "B"):
        file.write_text(f'title = "{title}"\n{text}')
        os.utime(file, ns=(10**18, 10**18))
        assert streams.load("x").title == title
        # The kernel's clock for files ticks every 4 ms or so.
        time.sleep(0.05)


def test_a_file_that_was_changed_a_moment_ago_is_read_again(root: Path) -> None:
    """Its time and size may be the same after the next change."""
    file = root / "x" / "stream.toml"
    text, before = file.read_text(), time.time_ns()
    os.utime(file, ns=(before, before))
    assert streams.load("x").title == ""
    file.write_text('title = "A"\n' + text)
    os.utime(file, ns=(before, before))
    assert streams.load("x").title == "A"
    file.write_text('title = "B"\n' + text)
    os.utime(file, ns=(before, before))
    assert streams.load("x").title == "B"


@pytest.mark.usefixtures("settled")
def test_a_stream_that_becomes_invalid_or_goes_is_not_kept(root: Path) -> None:
    assert streams.load("x").name == "x"
    (root / "x" / "stream.toml").write_text("name = 1\n")
    with raising(ConfigError, "name"):
        streams.load("x")
    shutil.rmtree(root / "x")
    with raising(ConfigError, "'x' is unknown; streams are y"):
        streams.load("x")


def test_overrides_that_change_are_used(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "overrides.toml"
    monkeypatch.setenv(overrides.VARIABLE, str(file))
    for restarts in (4, 5):
        file.write_text(f"[x.supervision]\nmax_restarts = {restarts}\n")
        os.utime(file, (restarts, restarts))
        assert streams.load("x").supervision.max_restarts == restarts
        assert streams.load("y").supervision.max_restarts not in (4, 5)


def test_one_stream_s_folders_are_those_that_a_search_finds(tmp_path: Path, root: Path) -> None:
    other, file = tmp_path / "others", tmp_path / "file"
    declarations.make(other, "x")
    (other / "empty").mkdir()
    (other / "Bad").mkdir()
    (other / "Bad" / "stream.toml").write_text("")
    file.write_text("")
    given = {folders.VARIABLE: f"{other}:{file}:{other}/:/no/such/folder"}
    found = folders.find(given).streams
    assert sorted(map(len, found.values())) == [1, 2]
    for name in ("x", "y", "empty", "Bad", "..", ""):
        assert folders.of_stream(name, given) == found.get(name, [])
