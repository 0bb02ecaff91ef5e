"""How a long-running process of a stream lives and ends, whatever its work."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

from sluice.model import exits
from sluice.model.error_codes import ErrorCode, code_of
from sluice.model.spec.config import ConfigError

log = logging.getLogger(__name__)


class Fenced(RuntimeError):
    """A later owner has taken over; this one must end and not come back."""

    code = ErrorCode.FENCED


class Unrecoverable(LookupError):
    """Table and topic do not fit together any more: a restart finds the same, and a person must decide."""

    code = ErrorCode.UNRECOVERABLE


def log_to_stderr() -> None:
    """How every job logs; the last line that it writes says why it failed."""
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("py4j").setLevel(logging.WARNING)


def run_process(what: str, work: Callable[[threading.Event], None]) -> int:
    """Run a process's ``work`` until it ends, or until SIGTERM or SIGINT ask it to; returns the exit code.

    ``work`` returns soon after the event is set. 0: it returned. 76: it raised Fenced. 78: it raised
    ConfigError or Unrecoverable. 1: it raised anything else. The log's last line is its
    :func:`failure_line`.
    """
    log_to_stderr()
    stop = threading.Event()

    def ask_to_stop(signum: int, frame: FrameType | None) -> None:
        stop.set()

    # Before the JVM starts: it would install its own handlers in a process that has none.
    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGINT, ask_to_stop)
    try:
        work(stop)
    except Fenced as notice:
        log.error("%s", failure_line(notice))
        return exits.FENCED
    except Exception as error:
        log.exception("%s failed", what)
        log.error("%s", failure_line(error))
        return exits.CONFIGURATION if isinstance(error, ConfigError | Unrecoverable) else 1
    if stop.is_set():
        log.info("stopped as asked")
    return 0


def failure_line(error: Exception) -> str:
    """The last line of a process that failed: code, class and message."""
    return f"{code_of(error)} {type(error).__name__}: {first_line(error)}"


def first_line(error: Exception) -> str:
    """What an error of Spark's or Java's says, without its stack."""
    # Spark's errors have it; asked like this, a producer without Spark need not import it.
    condition = getattr(error, "getCondition", lambda: None)()
    message = str(error).strip().splitlines()
    return f"{condition or ''} {message[0] if message else ''}".strip()
