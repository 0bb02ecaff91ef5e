"""What all tests share: which of them run in one process, and where each process looks for free ports."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from local.ports import FREE, RANGE_VARIABLE

HERE = Path(__file__).parent
# Folder -> the group whose tests run in one process, one after the other: they share what they start.
GROUPS = {"integration": "stack", "drills": "drills", "spark": "spark", "browser": "browser"}
WORKERS = 2


def pytest_configure(config: pytest.Config) -> None:
    """Each worker of pytest-xdist gets a part of the free ports for itself."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker:
        number, size = int(worker.removeprefix("gw")) % WORKERS, len(FREE) // WORKERS
        part = FREE[number * size : (number + 1) * size]
        os.environ[RANGE_VARIABLE] = f"{part[0]}-{part[-1]}"


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.relative_to(HERE).parts[0]
        named = item.get_closest_marker("xdist_group")
        if folder in GROUPS and named is None:
            item.add_marker(pytest.mark.xdist_group(GROUPS[folder]))
