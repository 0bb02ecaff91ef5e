"""Paths, errors and file locks (standard library only)."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sluice.cli.base import UnhealthyService as UnhealthyService
from sluice.cli.base import UsageError as UsageError
from sluice.cli.base import exit_code as exit_code
from sluice.cli.base import printable as printable
from sluice.cli.base import printable_log as printable_log


class SetupError(UsageError):
    """An artifact could not be fetched, built or found."""

    code = "SLU-802"


REPO = Path(__file__).resolve().parent.parent


# A folder of streams that a stack has only after their demo, beside those of every stack.
EXAMPLES = REPO / "samples" / "streams"


def cache() -> Path:
    """The folder of the artifacts: `SLUICE_CACHE`, else `sluice` in the user's cache."""
    path = os.environ.get("SLUICE_CACHE") or f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/sluice"
    return Path(path).expanduser().resolve()


def default_stack_dir() -> Path:
    """`SLUICE_HOME`, else `build/stack` in the repository."""
    given = os.environ.get("SLUICE_HOME")
    return Path(given).expanduser().resolve() if given else REPO / "build" / "stack"


def one_line(error: Exception) -> str:
    """Its text without line breaks."""
    return " ".join(str(error).split())


def fail(error: Exception) -> None:
    """Raise it; for callbacks."""
    raise error


@contextmanager
def locked(path: Path, on_busy: Callable[[], None]) -> Iterator[None]:
    """Hold a lock file; call `on_busy`, which may raise, before waiting for another process that holds it."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_busy()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
