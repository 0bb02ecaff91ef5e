"""The archive of Spark's classes is of the jars that are there: a JVM takes none of others."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from local.progress import ProgressDisplay
from local.setup import __main__ as setup
from local.setup import build
from local.setup.cache import environment, jars, spark_classes


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is made, in its order; each a folder with one file."""
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    found: list[str] = []

    def maker(name: str) -> Any:
        def make(*arguments: Any) -> None:
            folder: Path = arguments[-3]
            folder.mkdir(exist_ok=True)
            (folder / "file").write_text(name)
            found.append(name if name != "jars" else f"{arguments[0]} jars")

        return make

    for function, name in (
        ("make_python_environment", "environment"),
        ("make_jar_set", "jars"),
        ("make_class_archive", "archive"),
    ):
        monkeypatch.setattr(build, function, maker(name))
    return found


def ensure_all(java: Path) -> None:
    with ProgressDisplay() as board:
        setup._ensure_all(java, board, [setup.PYTHON])


def test_it_is_made_again_with_the_environment_or_the_jars(made: list[str], tmp_path: Path) -> None:
    (tmp_path / "release").write_text("17")
    ensure_all(tmp_path)
    assert made == ["environment", "spark jars", "kafka jars", "archive"]
    made.clear()
    ensure_all(tmp_path)
    assert made == []
    for artifact, expected in (
        (environment(), ["environment", "archive"]),
        (jars("spark"), ["spark jars", "archive"]),
        (jars("kafka"), ["kafka jars"]),
        (spark_classes(tmp_path), ["archive"]),
    ):
        (artifact.path / "file").unlink()
        ensure_all(tmp_path)
        assert made == expected
        made.clear()


def test_a_set_up_that_was_ended_between_them_makes_it_too(
    made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "release").write_text("17")
    ensure_all(tmp_path)
    made.clear()
    for artifact in (environment(), jars("spark")):
        (artifact.path / "file").unlink()
    with monkeypatch.context() as ended:
        ended.setattr(build, "make_jar_set", lambda *_: sys.exit(130))
        with pytest.raises(SystemExit):
            ensure_all(tmp_path)
    ensure_all(tmp_path)
    assert made == ["environment", "spark jars", "archive"]
