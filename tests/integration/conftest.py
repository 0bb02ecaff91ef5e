"""The whole stack, started once on free ports in a folder of its own, and ended with its tests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.stack import Stack
from tests.integration.rig import Rig
from tests.integration.streams import OVERRIDES

FEWER_PARTITIONS = 4
DAGS = Path(__file__).resolve().parents[2] / "dags"
SCHEDULE = re.compile(r"schedule=(timedelta\(.*\)|\".*\")")
# The tests' data is small: compiling it further costs more than it brings.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1"


@pytest.fixture(scope="session")
def dags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The DAGs without their schedules: only a test triggers supervision or compaction."""
    folder = tmp_path_factory.mktemp("dags")
    for file in DAGS.glob("*.py"):
        text = file.read_text()
        (folder / file.name).write_text(SCHEDULE.sub("schedule=None", text))
    assert SCHEDULE.search((DAGS / "nyc_taxi.py").read_text())
    return folder


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory, dags: Path) -> Iterator[Stack]:
    made = Stack(
        tmp_path_factory.mktemp("stack"),
        free_ports=True,
        dags=dags,
        feed="replay",
        overrides=OVERRIDES,
        java_options=JAVA_OPTIONS,
    )
    try:
        made.up()
        yield made
    finally:
        made.wipe()


@pytest.fixture(scope="session")
def rig(stack: Stack) -> Rig:
    """The stack with the topic that somebody made before, with fewer partitions than declared."""
    made = Rig(stack)
    made.create_topic(FEWER_PARTITIONS)
    stack.airflow().wait_for_dag("nyc_taxi_load")
    stack.airflow().unpause("nyc_taxi_load")
    return made
