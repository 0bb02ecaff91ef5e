"""A callback's ledger on an S3 that accepts and never answers: it is told before Airflow ends the process."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.airflow import callbacks
from sluice.airflow.failures import failed
from sluice.airflow.hook import PlatformHook
from sluice.config.platform_sections.s3 import S3
from sluice.core.error_codes import ErrorCode
from tests.support import notifier
from tests.support.notifier import Recorder, rule


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server whose kernel accepts, and which never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize(("dag", "task"), [("nyc_taxi_stream", "consumer"), ("nyc_taxi_load", "validate")])
def test_a_failure_is_told_within_seconds(
    silent: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dag: str, task: str
) -> None:
    s3 = S3("k", "s", f"http://127.0.0.1:{silent}", path_style=True)
    platform: Any = SimpleNamespace(s3=s3, lake=SimpleNamespace(ledger="s3://w/ledger"))
    hook = PlatformHook()
    hook.__dict__["platform"] = platform
    monkeypatch.setattr(callbacks, "PlatformHook", lambda: hook)
    notifier.configure(tmp_path, monkeypatch, rule())
    error = failed(ErrorCode.S3_UNREACHABLE, "S3 does not answer")
    run = SimpleNamespace(logical_date=1, start_date=None)
    of = SimpleNamespace(task_id=task, dag_id=dag, stream="nyc_taxi", component="consumer")
    context = {"task": of, "run_id": "r1", "dag_run": run, "exception": error}
    before = time.monotonic()
    callbacks.task_failed(context)
    assert time.monotonic() - before < 8
    assert len(Recorder.sent) == 1
    Recorder.clear()
