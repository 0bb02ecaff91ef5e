"""A program, not a test: what each DAG file that it is given does while it is imported, a line of JSON each.

Airflow is imported once; each file then runs in a fork of its own, as if it were the first.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import time
import traceback
from pathlib import Path
from typing import Any

# Before anything is watched or timed: every file needs it, and the stack's DAG processor has imported both
# before it forks (local/services/airflow.py).
import airflow.providers.apache.spark.operators.spark_submit
import airflow.sdk  # noqa: F401

REPO = str(Path(__file__).resolve().parents[2])
SYSTEM = ("socket.", "subprocess.", "os.")
BUSY = ("socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.system", "os.posix_spawn")
HEAVY = {"pyiceberg", "boto3", "confluent_kafka", "pyarrow", "pyspark", "pandas", "numpy", "pyroaring"}


def is_ours() -> bool:
    """Whether a file of the repository acts; a library's own import may look at the machine, then its
    <module> is nearer than any file of ours."""
    for frame, _ in traceback.walk_stack(None):
        if frame.f_code.co_filename == __file__:
            continue
        if frame.f_code.co_filename.startswith(REPO):
            return True
        if frame.f_code.co_name == "<module>":
            return False
    return True


def watch(event: str, arguments: tuple[Any, ...], busy: list[str]) -> None:
    if event.startswith(SYSTEM) and not is_ours():
        return
    if event in BUSY:
        busy.append(f"{event} {arguments}"[:200])
    if event == "open" and isinstance(arguments[0], str):
        path = arguments[0]
        if path.startswith(REPO) and not path.endswith((".py", ".pyc")) and ".pyc." not in path:
            busy.append(f"open {path}")


def run(file: str) -> dict[str, Any]:
    busy: list[str] = []
    sys.addaudithook(lambda event, arguments: watch(event, arguments, busy))
    began = time.process_time()
    runpy.run_path(str(Path(file).resolve()))
    took = time.process_time() - began
    return {"does": busy, "loads": sorted(HEAVY & set(sys.modules)), "seconds": took}


def main(files: list[str]) -> None:
    for file in files:
        child = os.fork()
        if child == 0:
            print(json.dumps({"file": Path(file).name, **run(file)}), flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            raise SystemExit(f"{file} ended with {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    main(sys.argv[1:])
