"""Programs that are texts, in tests, benchmarks and docs: mypy does not see that what they import moved."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from local.base import REPO

OURS = re.compile(r"^ *(?:from|import) (?:sluice|spark_jobs|local)\b", re.M)
PROGRAM = re.compile(r"```python\n(.*?)```|<<'END'\n(.*?)\n *END", re.S)


def texts() -> Iterator[tuple[str, str]]:
    """(file, program that imports our code)."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.md"], cwd=REPO, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.split():
        text = (REPO / name).read_text()
        if name.endswith(".md"):
            found = [a or b for a, b in PROGRAM.findall(text)]
        elif OURS.search(text):
            found = [
                node.value
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
            ]
        else:
            continue
        yield from ((name, one) for one in found if OURS.search(one))


def missing(program: str) -> list[str]:
    """What the program imports, or takes from an imported module, and is not there. A text that is no Python
    misses nothing."""
    try:
        tree = ast.parse(program)
    except SyntaxError:
        return []
    problems, modules = list[str](), dict[str, ModuleType]()
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(
            ("sluice", "spark_jobs")
        ):
            continue
        for alias in node.names:
            try:
                found = importlib.import_module(f"{node.module}.{alias.name}")
                modules[alias.asname or alias.name] = found
            except ModuleNotFoundError:
                if not hasattr(importlib.import_module(str(node.module)), alias.name):
                    problems.append(f"{node.module}.{alias.name}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            module = modules[node.value.id]
            if not hasattr(module, node.attr):
                problems.append(f"{module.__name__}.{node.attr}")
    return problems


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("from sluice.config import streams\nstreams.load('a')", []),
        ("from sluice.config import stream\nstream.load('a')", ["sluice.config.stream.load"]),
        (
            "from spark_jobs.common.spark.columns import computed, other",
            ["spark_jobs.common.spark.columns.other"],
        ),
    ],
)
def test_what_is_not_there_is_named(program: str, expected: list[str]) -> None:
    assert missing(program) == expected


def test_programs_in_texts_find_what_they_import() -> None:
    found = list(texts())
    assert len(found) > 10
    here = str(Path(__file__).relative_to(REPO))
    assert {name: lost for name, text in found if name != here and (lost := missing(text))} == {}
