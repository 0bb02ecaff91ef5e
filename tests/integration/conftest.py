"""The whole stack, started once on free ports in a folder of its own, and ended with its tests.

Its programs run the *installed* package, as a user has it: a wheel in a folder of its own, one DAG file of
three lines and a folder with streams. Nothing of this checkout is on their path, but for the replay server.

Its tests run in any order, and each alone: what they need of the stream they make themselves (`Rig`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from local.base import REPO
from local.stack.stack import Stack
from sluice.config.folders import VARIABLE
from tests.integration.rig import SPEC, Rig
from tests.integration.streams import OVERRIDES
from tests.support import package, stacks
from tests.support.jvm import QUICK
from tests.support.processes import resume_all

DAG_FILE = REPO / "dags" / "streams.py"
# In front of the tests' copy of streams.py: only tests trigger supervision and maintenance, and retries
# follow at once. A backfill's DAG keeps its schedule, which tells its intervals.
FASTER = """
from datetime import timedelta as _timedelta

from sluice.airflow.dags import maintenance_dags, make_dag, streams, supervision_dags


def _make_dag(*args, _original=make_dag.make_dag, **options):
    if isinstance(options.get("schedule"), _timedelta):
        options["schedule"] = None
    return _original(*args, **options | {"retry_delay": _timedelta(seconds=1)})


# Airflow has imported them before it forked the process that reads this.
for _module in (maintenance_dags, streams, supervision_dags):
    _module.make_dag = _make_dag
"""
AIRFLOW_SETTINGS = {
    "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
    # A killed worker's and a killed scheduler's tasks are found after this, instead of after five minutes.
    "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "45",
    "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    "SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "15",
    # A killed triggerer's waits go to the next one after this, instead of after 30 s.
    "TRIGGERER__JOB_HEARTBEAT_SEC": "2",
    "TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "10",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A scenario of minutes takes three times as long beside neighbours; a limit of a test's own stays."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(1800))


@pytest.fixture(scope="session")
def dags(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's DAG file, with FASTER in front."""
    folder = tmp_path_factory.mktemp("dags")
    (folder / DAG_FILE.name).write_text(FASTER + DAG_FILE.read_text())
    return folder


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return package.install(tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="package")
def stream_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in which a test may add a stream: SLUICE_STREAMS of the stack, and of this process."""
    folder = tmp_path_factory.mktemp("streams")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(folder))
        yield folder


@pytest.fixture(scope="package")  # ended before tests of other folders run in this process
def stack(
    tmp_path_factory: pytest.TempPathFactory, dags: Path, stream_folder: Path, installed: Path
) -> Iterator[Stack]:
    made = Stack(
        tmp_path_factory.mktemp("stack"),
        free_ports=True,
        dags=dags,
        feed="replay",
        overrides=OVERRIDES,
        java_options=QUICK,
        airflow_settings=AIRFLOW_SETTINGS,
        installed=installed,
    )
    with stacks.running(made):
        yield made


@pytest.fixture(scope="package")
def _dags_run(stack: Stack) -> None:
    airflow = stack.airflow()
    for dag in (f"{SPEC.name}_load", f"{SPEC.name}_stream"):
        airflow.wait_for_dag(dag)
        airflow.unpause(dag)


@pytest.fixture
def rig(stack: Stack, _dags_run: None) -> Iterator[Rig]:
    """The taxi stream of the stack. A new one per test: a test may have killed what the last one asked."""
    made = Rig(stack)
    yield made
    # Where a test failed half-way, for the next one.
    resume_all(made)
    print(made.stream_log()[-4000:])
