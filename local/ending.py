"""How a command line of the stack ends. Standard library only (the bootstrap imports it)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NoReturn

from local.errors import Problem

INTERRUPTED = 130


def end_with(main: Callable[[list[str]], int], interrupted: Callable[[], str] = str) -> NoReturn:
    """Runs `main` with the command line's arguments and ends the process with its exit code.

    A Problem is one line on stderr and 1. An interrupt (Ctrl-C, SIGINT) is 130, with what `interrupted` says
    in its place, when it says something.
    """
    try:
        sys.exit(main(sys.argv[1:]))
    except Problem as problem:
        sys.exit(f"sluice: {problem}")
    except KeyboardInterrupt:
        text = interrupted()
        if text:
            print(f"sluice: {text}", file=sys.stderr)
        sys.exit(INTERRUPTED)
