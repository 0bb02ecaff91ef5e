"""Paths, errors, exit codes, file locks and the list of commands (standard library only)."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


class UsageError(Exception):
    """An error that the user can fix: one line on stderr without a traceback, exit code 1.

    The text names what failed, the value found and the fix.
    """

    # Of sluice.model.error_codes, which the bootstrap cannot import.
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
        return f"sluice: {error.code} {error}"
    except KeyboardInterrupt:
        text = interrupted()
        if text:
            print(f"sluice: {text}", file=sys.stderr)
        return INTERRUPTED


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


COMMANDS = {
    "help": "this list",
    "setup": "fetch and build what is missing or damaged, into the cache",
    "up": "start the stack (PostgreSQL, Kafka, MinIO, Airflow) and wait until it is healthy",
    "down": "stop the stack; no process stays behind, the data stays",
    "status": "services and streams: state, health, lag, last event, supervision; JSON=1 for programs",
    "logs": "follow the logs of all services, or of one: make logs SERVICE=kafka",
    "demo": "the taxi load end to end, with the proof; or STREAM=wiki_changes, STREAM=isp_hits",
    "drill": "inject 12 faults into a stack of its own and verify the data: build/drills.json",
    "sql": 'query the lake: make sql Q="select count(*) from nyc_taxi"',
    "put": "upload a file to the source bucket: make put FILE=rides.csv KEY=rides/rides.csv",
    "airflow": 'Airflow\'s commands on the stack: make airflow ARGS="dags list"',
    "batches": 'what each batch read and published: make batches ARGS="nyc_taxi --limit 20"',
    "trace": 'where a row came from: make trace ARGS="nyc_taxi --partition 3 --offset 120"',
    "check": 'lint, types, import contract, unit and DAG tests; ARGS="-k word" goes to pytest',
    "test": "`make check`, then the tests on real services; ARGS as above",
    "test-all": "`make test` with every drill and the exhaustive tests",
    "lint": "the checks of `make check` without the tests",
    "k8s-check": "the manifests and the code for Kubernetes, against a real API server",
    "k8s-test": "a cluster of one node on this machine, and what runs on it; as root",
    "k8s-render": 'print a cluster\'s resources of the declared streams: ARGS="users"',
    "compose-env": 'write .env for docker compose, with generated passwords: ARGS="cluster erasure spark"',
    "compose-test": "build the images, run the stack in Docker, break it, and check the load",
    "bench": "measure Sluice and other ways, in turns: SCALE=0.1 WORKLOAD=one_batch for a look",
    "python": 'the environment\'s Python with the code on its path: ARGS="-m bench.recovery"',
    "destroy": "stop the stack and remove its data (asks; YES=1 does not)",
    "lock": "recompile the pinned requirements and the jars' hashes",
}


def usage() -> str:
    """One line per command."""
    return "\n".join(f"  make {command:<14}{text}" for command, text in COMMANDS.items())
