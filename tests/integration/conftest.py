"""The whole stack, started for the tests on free ports in a folder of its own, and ended with them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.stack import Stack
from tests.integration.rig import Rig

FEWER_PARTITIONS = 4
DAGS = Path(__file__).resolve().parents[2] / "dags"
SCHEDULE = re.compile(r"schedule=(timedelta\(.*\)|\".*\")")


@pytest.fixture(scope="session")
def dags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The DAGs without their schedules: a test alone says when a stream is looked at, or a table compacted.

    By its schedule, `tests/drills` has a stream looked at.
    """
    folder = tmp_path_factory.mktemp("dags")
    for file in DAGS.glob("*.py"):
        text = file.read_text()
        (folder / file.name).write_text(SCHEDULE.sub("schedule=None", text))
    assert SCHEDULE.search((DAGS / "nyc_taxi.py").read_text())
    return folder


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory, dags: Path) -> Iterator[Stack]:
    made = Stack(tmp_path_factory.mktemp("stack"), free_ports=True, dags=dags, feed="replay")
    try:
        made.up()
        yield made
    finally:
        made.wipe()


@pytest.fixture(scope="package")
def rig(stack: Stack) -> Rig:
    """The stack with the topic that somebody made before, with fewer partitions than declared."""
    made = Rig(stack)
    made.create_topic(FEWER_PARTITIONS)
    stack.airflow().wait_for_dag("nyc_taxi_load")
    stack.airflow().unpause("nyc_taxi_load")
    return made
