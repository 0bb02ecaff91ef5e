"""A job's session: what it keeps of its past does not follow the number of its batches."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from local.services import streams as stream_programs
from spark_jobs.common.spark.session import RETAINED
from tests.support.services import Services

RUNS = 120
JOB = f"""
import time
from sluice.config import platform
from spark_jobs.common.spark import session

spark = session.start("many", platform.load("consumer"), 1)
for _ in range({RUNS}):
    spark.range(1).selectExpr("id + 1").collect()
time.sleep(2)  # Spark removes them in another thread, after its listener's events
jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None).size()
queries = spark._jsparkSession.sharedState().statusStore().executionsCount()
print("kept", jobs, queries)
"""


@pytest.mark.exhaustive
def test_a_session_keeps_the_newest_jobs_and_queries_only(services: Services, tmp_path: Path) -> None:
    context = services.stack.context
    stream_programs.prepare(context)
    done = subprocess.run(
        [context.python, "-c", JOB],
        env=context.job_environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    jobs, queries = map(int, done.stdout.split()[-2:])
    # Spark removes some more at a time.
    assert 0 < jobs <= int(RETAINED["spark.ui.retainedJobs"])
    assert 0 < queries <= int(RETAINED["spark.sql.ui.retainedExecutions"])
