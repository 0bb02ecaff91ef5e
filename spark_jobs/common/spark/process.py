"""The start and the end of a long-running process of a stream."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from sluice.config.reading.toml import ConfigError
from sluice.core.error_codes import LOGINS, code_in
from sluice.core.processes import exits
from spark_jobs.common.spark.failures import Fenced, Unrecoverable, failure_line, known, needs_traceback

log = logging.getLogger(__name__)

# Set by sluice.clients.processes.parent for its component.
PARENT_PID = "SLUICE_PARENT_PID"


def log_to_stderr() -> None:
    """Configure the log of a job; its last line says why the job failed."""
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("py4j").setLevel(logging.WARNING)
    # A line for each request, and so for each schema id that a topic's records name.
    logging.getLogger("httpx").setLevel(logging.WARNING)


def run_process(name: str, work: Callable[[threading.Event], None]) -> int:
    """Run ``work`` until it ends, or until SIGTERM or SIGINT set its event; return the exit code.

    ``work`` returns soon after the event is set. 143: it returned after SIGTERM. 0: it returned otherwise.
    76: it raised Fenced. 77: a system refuses its login, or a secret is missing. 78: it raised another
    ConfigError, or Unrecoverable. 1: it raised anything else, or its parent ended. The log's last line is
    then the :func:`failure_line`. See :func:`exit_code` for 76 to 78.
    """
    log_to_stderr()
    stop, received = threading.Event(), list[int]()

    def request_stop(signum: int, frame: FrameType | None) -> None:
        received.append(signum)
        stop.set()

    # Before the JVM starts: it would install its own handlers in a process that has none.
    signal.signal(signal.SIGTERM, request_stop)
    signal.signal(signal.SIGINT, request_stop)
    try:
        _check_parent()
        work(stop)
    except Fenced as error:
        line = failure_line(error)
        log.error("%s", line)
        return exit_code(exits.FENCED, line)
    except Exception as error:
        line = failure_line(error)
        if needs_traceback(line):
            log.exception("%s failed", name)
        log.error("%s", line)
        return exit_code(code_for(error, line), line)
    if stop.is_set():
        log.info("stopped on request")
    return exits.STOPPED if signal.SIGTERM in received else 0


def code_for(error: Exception, line: str) -> int:
    """The exit code of a process that failed; ``line``: its :func:`failure_line`."""
    if code_in(line) in LOGINS:
        return exits.LOGIN_REFUSED
    return exits.CONFIGURATION if isinstance(known(error), ConfigError | Unrecoverable) else 1


def exit_code(code: int, line: str) -> int:
    """``code``; 0 instead of one of exits.BY_MESSAGE if exits.TERMINATION_LOG names a file, which then has
    both code and line."""
    path = os.environ.get(exits.TERMINATION_LOG)
    if path is None or code not in exits.BY_MESSAGE:
        return code
    Path(path).write_text(exits.termination_message(code, line), encoding="utf-8")
    return 0


def _check_parent() -> None:
    """Raise ProcessLookupError if the parent ended before this process had its parent-death signal."""
    # Not for what this process starts.
    parent = os.environ.pop(PARENT_PID, None)
    if parent is not None and int(parent) != os.getppid():
        raise ProcessLookupError(
            f"parent process {parent} ended during the start, now it is {os.getppid()}. Fix: none; the next "
            "parent process starts a component"
        )
