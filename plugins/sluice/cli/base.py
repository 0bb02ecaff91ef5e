"""Errors, exit codes and texts of a command line (standard library only: set-up, too, starts with it).

| exit code | meaning |
|---|---|
| 0 | done; of a check or a run: all is well |
| 1 | refused, failed or unhealthy: one line on stderr with an error code, without a traceback |
| 2 | the command line is wrong |
| 3 | `load`, `change`: the run goes on, its end was not waited for |
| 130 | interrupted (Ctrl-C) |
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

STILL_RUNS = 3
INTERRUPTED = 130


class UsageError(Exception):
    """An error that the user can fix: one line on stderr without a traceback, exit code 1.

    The text names what failed, the value found and the fix.
    """

    # One of sluice.core.error_codes, which the bootstrap cannot import.
    code = "SLU-801"


class UnhealthyService(UsageError):
    """A service of the stack does not start, does not answer, or did not become healthy."""

    code = "SLU-803"


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
