"""Paths, Problem, exit codes, command list (standard library only).

The one error that the embedded stack raises on purpose.

Where things are: the repository and the cache. Standard library only (the bootstrap imports it).

How a command line of the stack ends. Standard library only (the bootstrap imports it).

The verbs of the command line and what each does: shown by `make help` and by a wrong verb.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn


class UsageError(Exception):
    """Something a person can mend. The text names the thing, the value found and the mend, in one line.

    The command line prints it without a traceback and ends with 1; anything else that is raised is a bug of
    ours and is shown with its traceback.
    """

    # Of sluice.model.error_codes, which the bootstrap cannot import.
    code = "SLU-801"


class SetupError(UsageError):
    """Something could not be fetched, built or found."""

    code = "SLU-802"


class UnhealthyService(UsageError):
    """A service of the stack does not start, or did not become healthy."""

    code = "SLU-803"


REPO = Path(__file__).resolve().parent.parent


def cache() -> Path:
    """The folder of everything fetched and built: `SLUICE_CACHE`, else `sluice` in the user's cache."""
    given = os.environ.get("SLUICE_CACHE")
    if given:
        return Path(given).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().resolve() / "sluice"


def default_home() -> Path:
    """The stack's home: `SLUICE_HOME`, else `build/stack` in the repository."""
    given = os.environ.get("SLUICE_HOME")
    return Path(given).expanduser().resolve() if given else REPO / "build" / "stack"


INTERRUPTED = 130


def end_with(main: Callable[[list[str]], int], interrupted: Callable[[], str] = str) -> NoReturn:
    """Runs `main` with the command line's arguments and ends the process with its exit code.

    A Problem is one line on stderr and 1. An interrupt (Ctrl-C, SIGINT) is 130, with what `interrupted` says
    in its place, when it says something.
    """
    try:
        sys.exit(main(sys.argv[1:]))
    except UsageError as problem:
        sys.exit(f"sluice: {problem.code} {problem}")
    except KeyboardInterrupt:
        text = interrupted()
        if text:
            print(f"sluice: {text}", file=sys.stderr)
        sys.exit(INTERRUPTED)


VERBS = {
    "help": "this list",
    "setup": "fetch and build everything that is missing or damaged, into the cache",
    "up": "start the stack (PostgreSQL, Kafka, MinIO, Airflow) and wait until it is healthy",
    "down": "stop the stack; no process stays behind, the data stays",
    "status": "services and streams: state, verdict, lag, last event, supervision; JSON=1 for programs",
    "logs": "follow the logs of all services, or of one: make logs SERVICE=kafka",
    "demo": "the taxi load end to end, with the proof; or STREAM=wiki_changes, STREAM=isp_hits",
    "drill": "break a stack of its own on purpose, in 12 ways, and prove what is left: build/drills.json",
    "sql": 'ask the lake: make sql Q="select count(*) from nyc_taxi"',
    "check": 'lint, types, import contract, unit and DAG tests: under 90 s; ARGS="-k word" reaches pytest',
    "test": "`make check`, then the tests on real services: under 30 minutes; ARGS as above",
    "test-all": "`make test` with every drill and what is too slow for every change",
    "lint": "the checks of `make check` without the tests",
    "destroy": "stop the stack and remove its data (asks; YES=1 does not)",
    "lock": "recompile the pinned requirements and the jars' hashes",
}


def usage() -> str:
    """One line per verb."""
    return "\n".join(f"  make {verb:<9}{text}" for verb, text in VERBS.items())
