"""The start and the end of a long-running process of a stream, and the functions that a stream names."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import spark_jobs
from sluice.config.reading.toml import ConfigError
from sluice.config.stream import StreamSpec
from sluice.core.error_codes import PERMANENT, ErrorCode, code_in, code_of
from sluice.core.processes import exits
from sluice.core.tables.file_removal import missing_message

log = logging.getLogger(__name__)

# The last line of a worker's traceback: module, class and text of one of our exceptions.
_IN_WORKER = re.compile(r"((?:spark_jobs|sluice)\.[\w.]+)\.(\w+): (.+)")
# Text of Iceberg's S3InputStream. Other files, such as a checkpoint's, are not in these folders.
_MISSING_FILE = re.compile(r"Location does not exist: (s3[an]?://\S+/(?:metadata|data)/\S+)")
# Texts of Py4J and of Java's stack traces, in which the last cause is the first error.
_FAILED_CALL, _CAUSE = "An error occurred while calling", "Caused by: "
# Set by sluice.clients.processes.parent for its component.
PARENT_PID = "SLUICE_PARENT_PID"


class Fenced(RuntimeError):
    """A later writer, of ``epoch`` if that is known, has the lease; this process must end and not be
    restarted."""

    code = ErrorCode.FENCED

    def __init__(self, message: str, epoch: int = 0) -> None:
        super().__init__(message)
        self.epoch = epoch


def check_epoch(writer: str, epoch: int, newest: int | None, place: str, *, opening: bool = False) -> None:
    """Raise Fenced if ``newest``, the epoch in ``place`` (None: none there), is above the writer's.

    ``opening``: the writer has not put its epoch there yet, so the same one is another writer's: a catalog
    that was restored issues an epoch again. Or the writer's own, if the answer to that was lost.
    """
    if newest is None or newest < epoch:
        return
    if newest > epoch:
        raise Fenced(f"{writer}: fenced: writer epoch {epoch}, newer epoch {newest} ({place})", newest)
    if opening:
        raise Fenced(f"{writer}: fenced: writer epoch {epoch} is another writer's ({place})", newest)


class Unrecoverable(RuntimeError):
    """Table and topic no longer match: a restart finds the same, a user must decide."""

    code = ErrorCode.UNRECOVERABLE


class LakeFileMissing(Unrecoverable):
    """The catalog names a file that is gone: it was restored to a state older than the horizon."""

    code = ErrorCode.LAKE_FILE_MISSING


def known(error: Exception) -> Exception:
    """LakeFileMissing if Iceberg did not find a file of a table, by its text; else the error itself."""
    found = _MISSING_FILE.search(str(error))
    if found is None:
        return error
    return LakeFileMissing(missing_message(found[1]))


def log_to_stderr() -> None:
    """Configure the log of a job; its last line says why the job failed."""
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("py4j").setLevel(logging.WARNING)


def run_process(name: str, work: Callable[[threading.Event], None]) -> int:
    """Run ``work`` until it ends, or until SIGTERM or SIGINT set its event; return the exit code.

    ``work`` returns soon after the event is set. 143: it returned after SIGTERM. 0: it returned otherwise.
    76: it raised Fenced. 78: it raised ConfigError or Unrecoverable. 1: it raised anything else, or its
    parent ended. The log's last line is then the :func:`failure_line`. See :func:`exit_code` for 76 and 78.
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
        is_final = isinstance(known(error), ConfigError | Unrecoverable)
        return exit_code(exits.CONFIGURATION if is_final else 1, line)
    if stop.is_set():
        log.info("stopped on request")
    return exits.STOPPED if signal.SIGTERM in received else 0


def exit_code(code: int, line: str) -> int:
    """``code``; 0 instead of one of exits.FINAL if exits.TERMINATION_LOG names a file, which then has both
    code and line."""
    path = os.environ.get(exits.TERMINATION_LOG)
    if path is None or code not in exits.FINAL:
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


def failure_line(error: Exception) -> str:
    """``<code> <class>: <first line>``; of an error in a Python worker, known by its traceback, its own."""
    error = known(error)
    for line in reversed(str(error).splitlines()):
        if match := _IN_WORKER.match(line):
            code = getattr(getattr(importlib.import_module(match[1]), match[2], None), "code", None)
            if isinstance(code, ErrorCode):
                return f"{code} {match[2]}: {match[3]}"
    if text := java_cause(error):
        # The class of that is Py4J's.
        return f"{code_of(error)} {text}"
    return f"{code_of(error)} {type(error).__name__}: {first_line(error)}"


def needs_traceback(line: str) -> bool:
    """Whether a :func:`failure_line` says less than the traceback: not if the cause is in data or a
    declaration, which it names."""
    return code_in(line) not in PERMANENT


def first_line(error: Exception) -> str:
    """The message of a Spark or Java error without its stack."""
    # Asked like this, a producer without Spark need not import Spark's errors.
    condition = getattr(error, "getCondition", lambda: None)()
    message = str(error).strip().splitlines()
    return f"{condition or ''} {message[0] if message else ''}".strip()


def java_cause(error: Exception) -> str:
    """Class and message of the first Java error behind one of Py4J, whose own only says which call failed;
    empty for another error."""
    lines = str(error).strip().splitlines()
    if not lines or not lines[0].startswith(_FAILED_CALL):
        return ""
    named = [line.removeprefix(_CAUSE) for line in lines if line.startswith(_CAUSE)]
    return (named or [line.lstrip(": ") for line in lines[1:2]] or [lines[0]])[-1]


def function(spec: StreamSpec, reference: str) -> Callable[..., Any]:
    """Import ``module:function`` from the stream's folder.

    Raises ConfigError if the module has no such function; errors of the module's import are passed on.
    """
    module, _, name = reference.partition(":")
    # A stream may be in a folder of SLUICE_STREAMS.
    root = str(spec.folder.parent)
    if root not in spark_jobs.__path__:
        spark_jobs.__path__.append(root)
    path = f"spark_jobs.{spec.name}.{module}"
    if importlib.util.find_spec(path) is None:
        raise ConfigError(f"stream {spec.name!r}: {reference!r}: no {module}.py in {spec.folder}")
    candidate = getattr(importlib.import_module(path), name, None)
    if not callable(candidate):
        raise ConfigError(f"stream {spec.name!r}: {reference!r}: {module}.py has no function {name!r}")
    return candidate
