"""docker/driver: the command of a driver pod that spark-submit makes in cluster mode."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

from local.base import REPO

DRIVER = REPO / "docker" / "driver"
PROGRAM = """
import json, os, sys
print(json.dumps([os.getpid(), os.environ['PYSPARK_SUBMIT_ARGS'], sys.argv]))
"""
CLASS = "org.apache.spark.deploy.PythonRunner"


def _driver(
    folder: Path, *arguments: str, pod: str = "nyc-taxi-consumer-driver"
) -> tuple[int, subprocess.Popen[str]]:
    (folder / "python").symlink_to(sys.executable)
    environment = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "POD_NAME": pod,
        # As Spark gives them to the pod.
        "SPARK_APPLICATION_ID": "spark-0a1b2c3d4e5f",
        "PYSPARK_SUBMIT_ARGS": "--conf spark.master=local[2] pyspark-shell",
    }
    process = subprocess.Popen(
        [DRIVER, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    return process.pid, process


def _given(folder: Path, *options: str) -> tuple[str, ...]:
    program = folder / "program.py"
    program.write_text(PROGRAM)
    return ("--properties-file", "/opt/spark/conf/a", "--class", CLASS, f"local://{program}", *options)


def test_the_job_is_the_pods_process_and_reads_the_submissions_properties(tmp_path: Path) -> None:
    pid, process = _driver(tmp_path, *_given(tmp_path, "consumer", "nyc_taxi", "--run", "r 1"))
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    found, submit, argv = json.loads(output)
    # Not its child: a stop's SIGTERM reaches the job.
    assert found == pid
    assert argv[1:] == ["consumer", "nyc_taxi", "--run", "r 1"]
    words = shlex.split(submit)
    assert words[:4] == ["--deploy-mode", "client", "--properties-file", "/opt/spark/conf/a"]
    # The image's own configuration, which --properties-file would replace.
    assert "--load-spark-defaults" in words
    # What the resource says against the submission comes last, and wins.
    assert words[-3:] == ["--conf", "spark.master=local[2]", "pyspark-shell"]


def test_executors_have_names_of_this_run_that_spark_takes(tmp_path: Path) -> None:
    process = _driver(tmp_path, *_given(tmp_path), pod=f"{'a' * 54}-driver")[1]
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    words = shlex.split(json.loads(output)[1])
    (prefix,) = [word for word in words if "podNamePrefix" in word]
    name = prefix.partition("=")[2]
    assert name == f"{'a' * 41}-d4e5f"[:47]
    # Spark's limit.
    assert len(name) <= 47


def test_other_arguments_are_refused(tmp_path: Path) -> None:
    process = _driver(tmp_path, "--class", CLASS, "local:///x")[1]
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 64
    assert "expected --properties-file" in errors
