"""All drills for real: each fault is detected and repaired, and nothing is lost or duplicated.

With supervision triggered at once; at its real interval, with a disk that can be full, they are `make drill`.
`make test` plays one of them, on the integration tests' stack.
"""

from __future__ import annotations

import pytest

from local.progress import ProgressDisplay
from tests.drills.faults import DRILLS
from tests.drills.result import DrillRecord
from tests.drills.runner import run
from tests.support.stream import StreamUnderTest

pytestmark = pytest.mark.exhaustive

# Long enough for a busy machine; what is promised is measured by `make drill`.
DAG_SECONDS = 600
NEEDS_A_DISK = "disk_full"
# Played by `make test`: tests/integration/test_drills.py.
PLAYED_ALWAYS = "consumer_killed"
# What exactly is expected of two of them: who detects it, and that there is a restart.
DETECTED_BY = {
    "consumer_zombie": {"health down", "health fenced"},
    "bucket_errors": {"the runtime"},
}


def played(name: str, stream: StreamUnderTest) -> DrillRecord:
    with ProgressDisplay() as board:
        record = run(DRILLS[name], stream, board, trigger_immediately=True, load=False)
    # pytest shows it where the test fails.
    print((stream.stack.home.logs / f"{stream.spec.program}.log").read_text(errors="replace")[-6000:])
    return record


@pytest.mark.parametrize("name", [name for name in DRILLS if name not in (NEEDS_A_DISK, PLAYED_ALWAYS)])
def test_a_drill(name: str, stream: StreamUnderTest) -> None:
    record = played(name, stream)
    assert record.passed, record.failures
    assert record.records == (0, 0)
    assert record.sent > 0
    assert record.detected_at is not None
    assert record.recovered_at is not None
    if name in DETECTED_BY:
        assert record.detected_by.split(" (")[0] in DETECTED_BY[name]
        assert record.restarts >= 1


def test_a_drill_that_cannot_be_made_here_is_not_passed_and_says_why(stream: StreamUnderTest) -> None:
    record = played(NEEDS_A_DISK, stream)
    assert not record.passed
    assert "file system" in record.failures


def test_a_drill_as_a_dag_run_of_the_airflow_that_it_may_break(stream: StreamUnderTest) -> None:
    stream.airflow.wait_for_dag("drill")
    stream.airflow.unpause("drill")
    run = stream.airflow.trigger("drill", {"drill": "malformed_record", "trigger_immediately": True})
    state = stream.airflow.wait("drill", run, DAG_SECONDS)
    log = "\n".join(stream.airflow.log("drill", run, "drill"))
    assert state == "success", log[-3000:]
    assert "passed" in log, "the drill's own lines are in the task's log"
    row = stream.airflow.returned("drill", run, "drill")
    assert (row["drill"], row["passed"], row["lost"], row["duplicated"]) == ("malformed_record", True, 0, 0)
