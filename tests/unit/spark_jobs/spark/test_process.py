"""How a process of a stream ends: its exit code, and a last log line that begins with an error code."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from sluice.clients.catalogs.errors import login_refused
from sluice.clients.kafka.errors import LoginRefused
from sluice.clients.s3.errors import S3LoginRefused
from sluice.config.reading.references import SecretNotFound
from sluice.config.reading.toml import ConfigError
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.processes import exits
from sluice.core.tables.file_removal import MISSING_FIX, missing_message
from spark_jobs.__main__ import JOBS, main
from spark_jobs.common.consumer.writer import VerificationFailed
from spark_jobs.common.spark.failures import DENIED_FIX, Fenced, Unrecoverable
from spark_jobs.common.spark.process import PARENT_PID, run_process

# As Iceberg says it, of a table's file and of one of a checkpoint.
NOT_THERE, FIX = "Location does not exist:", f"Fix: {MISSING_FIX}"
DENIED = "Access Denied. (Service: S3, Status Code: 403, Request ID: 1)"
GONE, OTHER = "s3://w/lake/raw/t/metadata/1-a.gz.metadata.json", "s3a://w/q/w1_a/sources/0/0"


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """As they were: a process sets its own."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("error", "exit_code", "line"),
    [
        (Fenced("epoch 3 is newer"), exits.FENCED, "SLU-501 Fenced: epoch 3 is newer"),
        (ConfigError("no key"), exits.CONFIGURATION, "SLU-101 ConfigError: no key"),
        (LoginRefused("no"), exits.LOGIN_REFUSED, "SLU-210 LoginRefused: no"),
        # It may come: a mounted one is late, another one is written again.
        (SecretNotFound("/s: no"), exits.LOGIN_REFUSED, "SLU-106 SecretNotFound: /s: no"),
        (
            login_refused("t", "old", "the clock is wrong"),
            exits.LOGIN_REFUSED,
            "SLU-228 LoginRefused: t: the catalog refuses the login: 'old'; the clock is wrong",
        ),
        (Unrecoverable("gone"), exits.CONFIGURATION, "SLU-507 Unrecoverable: gone"),
        (VerificationFailed("a gap\nmore"), 1, "SLU-402 VerificationFailed: a gap"),
        (
            RuntimeError(f"error while calling o1.load.\n: x.NotFoundException: {NOT_THERE} {GONE}\n\tat y"),
            exits.CONFIGURATION,
            f"SLU-224 LakeFileMissing: {GONE}: the catalog's metadata names it, and it is gone. {FIX}",
        ),
        # As a read of a change's result that is gone.
        (
            Refused(missing_message("s3://w/c.json"), ErrorCode.LAKE_FILE_MISSING),
            exits.CONFIGURATION,
            f"SLU-224 LakeFileMissing: s3://w/c.json: the catalog's metadata names it, and it is gone. {FIX}",
        ),
        (RuntimeError(f"{NOT_THERE} {OTHER}"), 1, f"SLU-500 RuntimeError: {NOT_THERE} {OTHER}"),
        (S3LoginRefused("no"), exits.LOGIN_REFUSED, "SLU-214 S3LoginRefused: no"),
        (
            RuntimeError(
                "An error occurred while calling o1.save.\n: x.SdkClientException: Failed to load\n\tat y\n"
                "Caused by: z.SdkServiceException: SLU-214 role a: STS says no. Fix: ask\n\t... 18 more\n"
            ),
            exits.LOGIN_REFUSED,
            "SLU-214 S3LoginRefused: role a: STS says no. Fix: ask",
        ),
        (LookupError("no topic"), 1, "SLU-500 LookupError: no topic"),
        (
            RuntimeError(
                "An error occurred while calling o1.save.\n: x.SparkException: aborted\n\tat y\n"
                "Caused by: x.SparkException: task\n\tat y\nCaused by: z.TooLarge: 9 bytes\n"
            ),
            1,
            "SLU-500 z.TooLarge: 9 bytes",
        ),
        (
            RuntimeError(
                "An error occurred while calling o1.save.\n: x.SparkException: aborted\n\tat y\nCaused by: "
                f"z.S3Exception: {DENIED} (SDK: 2)\n"
            ),
            1,
            f"SLU-212 S3Denied: S3 denies access: {DENIED}. {DENIED_FIX}",
        ),
        (
            RuntimeError("An error occurred while calling o1.save.\n: x.NoRight: not allowed\n\tat y\n"),
            1,
            "SLU-500 x.NoRight: not allowed",
        ),
    ],
)
def test_the_last_line_of_a_log_begins_with_the_code(
    error: Exception, exit_code: int, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    def work(stop: threading.Event) -> None:
        raise error

    with caplog.at_level(logging.INFO):
        assert run_process("the consumer", work) == exit_code
    assert caplog.messages[-1] == line


@pytest.mark.parametrize(
    ("error", "exit_code", "end"),
    [
        (Fenced("epoch 3 is newer"), 0, (exits.FENCED, "SLU-501 Fenced: epoch 3 is newer")),
        (ConfigError("no key"), 0, (exits.CONFIGURATION, "SLU-101 ConfigError: no key")),
        # Supervision starts it again.
        (LoginRefused("no"), 0, (exits.LOGIN_REFUSED, "SLU-210 LoginRefused: no")),
        (Unrecoverable("gone"), 0, (exits.CONFIGURATION, "SLU-507 Unrecoverable: gone")),
        # It may pass: the runtime restarts it.
        (LookupError("no topic"), 1, None),
        (None, 0, None),
    ],
)
def test_for_a_runtime_that_knows_no_exit_codes_a_final_end_is_a_message_and_0(
    error: Exception | None,
    exit_code: int,
    end: tuple[int, str] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "termination-log"
    path.touch()
    monkeypatch.setenv(exits.TERMINATION_LOG, str(path))

    def work(stop: threading.Event) -> None:
        if error is not None:
            raise error

    assert run_process("the consumer", work) == exit_code
    assert exits.final_end(path.read_text()) == end


def test_a_stop_by_sigterm_is_not_0_for_any_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Spark operator restarts what failed, and only that: a driver pod that was deleted, too."""
    path = tmp_path / "termination-log"
    monkeypatch.setenv(exits.TERMINATION_LOG, str(path))

    def work(stop: threading.Event) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(10)

    assert run_process("the consumer", work) == exits.STOPPED
    assert not path.exists()


def test_a_message_has_room_where_kubernetes_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "termination-log"
    monkeypatch.setenv(exits.TERMINATION_LOG, str(path))

    def work(stop: threading.Event) -> None:
        raise ConfigError("\N{SNOWMAN}" * 5000)

    assert run_process("the consumer", work) == 0
    assert len(path.read_bytes()) <= 4096
    found = exits.final_end(path.read_text(encoding="utf-8"))
    assert found is not None
    assert found[1].startswith("SLU-101 ConfigError: \N{SNOWMAN}")


def test_a_stream_that_is_not_declared_ends_a_component_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "termination-log"
    monkeypatch.setenv(exits.TERMINATION_LOG, str(path))
    assert main(["consumer", "no_such_stream"]) == 0
    found = exits.final_end(path.read_text())
    assert found is not None
    assert found[0] == exits.CONFIGURATION
    assert "no_such_stream" in found[1]


@pytest.mark.parametrize(
    ("error", "has_traceback"),
    [(ConfigError("no key"), False), (Fenced("epoch 3"), False), (LookupError("no topic"), True)],
)
def test_a_cause_that_says_everything_has_no_traceback_above_it(
    error: Exception, has_traceback: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def work(stop: threading.Event) -> None:
        raise error

    run_process("the consumer", work)
    assert any(record.exc_info for record in caplog.records) is has_traceback


def test_a_component_whose_parent_ended_before_its_start_ends(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[threading.Event] = []
    monkeypatch.setenv(PARENT_PID, str(os.getppid()))
    assert run_process("the consumer", runs.append) == 0
    assert PARENT_PID not in os.environ, "another process's parent is this one"
    monkeypatch.setenv(PARENT_PID, str(os.getpid()))
    assert run_process("the consumer", runs.append) == 1
    assert len(runs) == 1
    assert str(os.getpid()) in caplog.messages[-1]


def test_a_secret_that_is_missing_ends_no_job_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str, options: Sequence[str]) -> int:
        raise SecretNotFound("producer.toml kafka password: file /s cannot be read")

    monkeypatch.setitem(JOBS, "producer", missing)
    assert main(["producer", "nyc_taxi"]) == exits.LOGIN_REFUSED
