"""Paths, errors, exit codes and file locks (standard library only)."""

from __future__ import annotations

import fcntl
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


class UsageError(Exception):
    """An error that the user can fix: one line on stderr without a traceback, exit code 1.

    The text names what failed, the value found and the fix.
    """

    # Of sluice.core.error_codes, which the bootstrap cannot import.
    code = "SLU-801"


class SetupError(UsageError):
    """An artifact could not be fetched, built or found."""

    code = "SLU-802"


class UnhealthyService(UsageError):
    """A service of the stack does not start, or did not become healthy."""

    code = "SLU-803"


REPO = Path(__file__).resolve().parent.parent
INTERRUPTED = 130


def cache() -> Path:
    """The folder of the artifacts: `SLUICE_CACHE`, else `sluice` in the user's cache."""
    path = os.environ.get("SLUICE_CACHE") or f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/sluice"
    return Path(path).expanduser().resolve()


def default_stack_dir() -> Path:
    """`SLUICE_HOME`, else `build/stack` in the repository."""
    given = os.environ.get("SLUICE_HOME")
    return Path(given).expanduser().resolve() if given else REPO / "build" / "stack"


def exit_code(main: Callable[[list[str]], int], interrupted: Callable[[], str] = str) -> int | str:
    """Run `main` with the command line's arguments; give what `sys.exit` takes.

    A UsageError is one line on stderr and 1; an interrupt (Ctrl-C, SIGINT) is 130, after the message of
    `interrupted` if it has one.
    """
    try:
        return main(sys.argv[1:])
    except UsageError as error:
        return "\n".join(map(printable, f"sluice: {error.code} {error}".splitlines()))
    except KeyboardInterrupt:
        text = interrupted()
        if text:
            print(f"sluice: {text}", file=sys.stderr)
        return INTERRUPTED


def one_line(error: Exception) -> str:
    """Its text without line breaks."""
    return " ".join(str(error).split())


# What a terminal obeys or cannot encode: control characters, changes of direction, line and paragraph
# separators, lone surrogates.
_OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# Colours of a log, which change nothing but colours.
_OR_COLOUR = re.compile(rf"(\x1b\[[\d;]*m)|{_OBEYED.pattern}")


def printable(text: str) -> str:
    """The text of others for a terminal: characters that it would obey as escapes (`\\x1b`), nothing else
    changed."""
    return _OBEYED.sub(_escaped, text)


def printable_log(line: str) -> str:
    """As printable, with its colours."""
    return _OR_COLOUR.sub(lambda match: match[1] or _escaped(match), line)


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape", "surrogatepass").decode("ascii")


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
