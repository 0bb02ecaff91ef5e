"""The diagrams of packages in docs/developing.md show the imports that the code has, and only downwards."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[3]
DEVELOPING = REPO / "docs" / "developing.md"
Edges = set[tuple[str, str]]


def imports(package: str) -> Edges:
    """(room, room that it imports) among the rooms of ``package``: its folders, and its files."""
    folder = REPO / package
    prefix = package.removeprefix("plugins/").replace("/", ".") + "."
    rooms = {
        path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    edges: Edges = set()
    for file in folder.rglob("*.py"):
        here = file.relative_to(folder).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            for name in names:
                there = f"{name}.".removeprefix(prefix).split(".")[0]
                if name.startswith(prefix) and there in rooms and there != here:
                    edges.add((here, there))
    return edges


def reduced(edges: Edges) -> Edges:
    """Without the edges that a longer path says too."""

    def reaches(start: str, end: str, without: tuple[str, str]) -> bool:
        following = [b for a, b in edges if a == start and (a, b) != without]
        return end in following or any(reaches(room, end, without) for room in following)

    return {edge for edge in edges if not reaches(*edge, without=edge)}


@pytest.mark.parametrize("package", ["plugins/sluice", "spark_jobs/common", "local"])
def test_a_drawing_shows_the_imports(package: str) -> None:
    text = DEVELOPING.read_text()
    (drawing,) = re.findall(rf"`{package}`[^`]*```mermaid\n(.*?)```", text, re.S)
    drawn = set(re.findall(r"^    (\w+) --> (\w+)$", drawing, re.M))
    edges = imports(package)
    assert not {(b, a) for a, b in edges} & edges, "two rooms import each other"
    assert drawn == reduced(edges)


ROOMS = [
    path.parent.relative_to(REPO)
    for root in ("plugins/sluice", "spark_jobs/common")
    for path in sorted((REPO / root).glob("*/__init__.py"))
]


@pytest.mark.parametrize("room", ROOMS, ids=str)
def test_a_rooms_docstring_tells_its_story_and_where_to_start(room: Path) -> None:
    story = ast.get_docstring(ast.parse((REPO / room / "__init__.py").read_text())) or ""
    assert len(story.splitlines()) >= 4, f"{room}/__init__.py says what the room is, and no more"
    named = set(re.findall(r"``([a-z_]+)``", story))
    modules = {path.stem for path in (REPO / room).iterdir()} - {"__init__"}
    assert re.search(r"[Ss]tart|Entry", story), f"{room}/__init__.py does not say where to start"
    assert named & modules, f"{room}/__init__.py names none of its modules"


MOST_FILES = 12


@pytest.mark.parametrize("root", ["plugins/sluice", "spark_jobs", "local", "bench"])
def test_no_room_has_more_files_than_a_stranger_looks_through(root: str) -> None:
    files = Counter(path.parent for path in (REPO / root).rglob("*.py") if path.stem != "__init__")
    crowded = {
        str(room.relative_to(REPO)): count
        for room, count in files.items()
        if count > MOST_FILES and not any(room in other.parents for other in files)
    }
    assert not crowded, f"over {MOST_FILES} files: divide them into rooms inside"
