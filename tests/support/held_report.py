"""The report of wiki_changes, to which something happens in one place of its work.

``python -m tests.support.held_report <method of its owner> <hang|stop> <file>``: it makes the file where it
would call the method; then it goes no further, or is asked to stop and goes on.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from spark_jobs.__main__ import main as run_job
from spark_jobs.common.report_owner import ReportOwner


def main(method: str, what: str, sign: str) -> None:
    original = getattr(ReportOwner, method)

    def instead(owner: ReportOwner) -> None:
        Path(sign).touch()
        if what == "hang":
            time.sleep(3600)
        os.kill(os.getpid(), signal.SIGTERM)
        original(owner)

    setattr(ReportOwner, method, instead)
    sys.exit(run_job(["report", "wiki_changes"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
