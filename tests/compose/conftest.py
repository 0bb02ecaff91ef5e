"""One project of containers for all tests of this folder: what it shows a person, and what it survives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.compose.project import Project


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """Images built, everything started with all profiles; removed afterwards."""
    project = Project(tmp_path_factory.mktemp("compose"), ("cluster", "erasure", "spark", "registry"))
    try:
        project.build()
        project.up()
        yield project
    finally:
        project.remove()
