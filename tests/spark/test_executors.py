"""The direct path on executors in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.on_executors import RECORDS_PER_TASK, SENT, WORKERS


@pytest.mark.exhaustive
def test_a_partition_with_nearly_all_records_is_read_by_all_workers(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.on_executors", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    found = json.loads(done.stdout.splitlines()[-1])
    least = SENT[0] // RECORDS_PER_TASK
    assert len(found["tasks"]) == WORKERS
    assert sum(found["tasks"].values()) >= least
    # One core each: the tasks of the large partition go to both.
    assert min(found["tasks"].values()) >= least // 4, found
    assert found["files"] >= least
