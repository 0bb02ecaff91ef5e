"""Drills for real: the stack is broken, notices it, mends it, and nothing is lost or there twice.

Some of them, with supervision triggered at once; all of them, at its real interval, are `make drill`. A dead
and a hung consumer are also in `tests/integration/test_1_supervision.py`, and cost no drill here.
"""

from __future__ import annotations

import pytest

from local.drills.catalogue import DRILLS
from local.drills.result import Row
from local.drills.run import play
from local.drills.site import Site
from local.progress import Board

# Long enough for a busy machine; what is promised is measured by `make drill`.
DAG_SECONDS = 600


def played(name: str, site: Site) -> Row:
    with Board() as board:
        row = play(DRILLS[name], site, board, at_once=True, load=False)
    # pytest shows it where the test fails.
    print(site.stream_log()[-6000:])
    return row


@pytest.mark.parametrize(
    ("name", "noticed_by", "restarts"),
    [
        ("consumer_zombie", {"verdict dead", "verdict superseded"}, 1),
        ("bucket_errors", {"verdict dead"}, 1),
    ],
)
def test_a_drill(name: str, noticed_by: set[str], restarts: int, site: Site) -> None:
    row = played(name, site)
    assert row.passed, row.why_not
    assert (row.lost, row.duplicated) == (0, 0)
    assert row.noticed_by in noticed_by
    assert row.restarts == restarts
    assert row.sent > 0
    assert row.seconds_to_notice is not None
    assert row.seconds_to_recover is not None


def test_a_drill_that_cannot_be_made_here_is_not_passed_and_says_why(site: Site) -> None:
    row = played("disk_full", site)
    assert not row.passed
    assert "is no file system of its own" in row.why_not


def test_a_drill_as_a_dag_run_of_the_airflow_that_it_may_break(site: Site) -> None:
    dag = "drill_poison_record"
    site.airflow.wait_for_dag(dag)
    site.airflow.unpause(dag)
    run = site.airflow.trigger(dag, {"at_once": True})
    state = site.airflow.wait(dag, run, DAG_SECONDS)
    log = "\n".join(site.airflow.log(dag, run, "drill"))
    assert state == "success", log[-3000:]
    assert "passed" in log, "the drill's own lines are in the task's log"
    row = site.airflow.xcom(dag, run, "drill")
    assert (row["drill"], row["passed"], row["lost"], row["duplicated"]) == ("poison_record", True, 0, 0)
