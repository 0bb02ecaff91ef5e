"""Run all drills or some, on a stack of their own; with --in-place on the one that runs.

python -m tests.drills [NAME ...] [--in-place] [--trigger-immediately]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from local.base import REPO, UsageError, exit_code, fail, locked, printable
from local.progress import ProgressDisplay
from local.stack.stack import Stack
from sluice.cli.terminal import new_console
from sluice.config import overrides, streams
from sluice.config.folders import VARIABLE
from sluice.config.reading.toml import ConfigError
from tests.drills import result
from tests.drills.drill import Drill
from tests.drills.faults import DRILLS
from tests.drills.own_stack import own_stack
from tests.drills.restore import restore
from tests.drills.result import DrillRecord
from tests.drills.runner import run
from tests.support.stream import StreamUnderTest

STREAM = "nyc_taxi"


def main(arguments: list[str]) -> int:
    """Run drills and show the table, or, in place, their records as JSON lines; 0 if all passed.

    Raises UsageError for an unknown name, for external systems, and if the stack does not start.
    """
    parser = argparse.ArgumentParser(prog="drill", description="Inject faults and verify the data.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"all by default: {', '.join(DRILLS)}")
    parser.add_argument("--in-place", action="store_true", help="on the stack that runs, not on a new one")
    parser.add_argument(
        "--trigger-immediately", action="store_true", help="trigger supervision right after the fault"
    )
    options = parser.parse_intermixed_args(arguments)
    drills = chosen(options.names)
    running = Stack() if options.in_place else None
    check_embedded(running)
    # Ends as Ctrl-C does: the stack is restored, and the disk unmounted.
    signal.signal(signal.SIGTERM, _interrupt)
    found: list[DrillRecord] = []
    try:
        with ProgressDisplay() as board, _in_place(running, board) if running else own_stack(board) as stack:
            stream = StreamUnderTest(stack, streams.load(STREAM))
            for drill in drills:
                found.append(run(drill, stream, board, options.trigger_immediately))
                result.store(found[-1], DRILLS)
    except ConfigError as error:
        raise UsageError(str(error)) from error
    if running:
        for one in found:
            print(json.dumps(one.to_json()))
    else:
        new_console().print(result.table(found))
        print(f"Rows: {result.RESULT.relative_to(REPO)}")
    for one in found:
        if not one.passed:
            print(f"sluice: {one.drill}: {printable(one.failures)}", file=sys.stderr)
    return 0 if all(one.passed for one in found) else 1


def check_embedded(running: Stack | None) -> None:
    """Raises UsageError if the stack that runs, or a new one, has external systems."""
    external = running.settings["external"] if running else os.environ.get("SLUICE_EXTERNAL")
    if external:
        raise UsageError(
            f"Kafka and S3 are external (SLUICE_EXTERNAL is {external}), and drills inject faults into "
            "embedded ones only. Fix: run drills without SLUICE_EXTERNAL, on a stack of their own"
        )


def chosen(names: Sequence[str]) -> list[Drill]:
    """The drills of these names, all without one. Raises UsageError for unknown ones."""
    unknown = [name for name in names if name not in DRILLS]
    if unknown:
        raise UsageError(f"no drill {', '.join(unknown)}. Fix: give {', '.join(DRILLS)}")
    return [DRILLS[name] for name in names or DRILLS]


@contextmanager
def _in_place(stack: Stack, board: ProgressDisplay) -> Iterator[Stack]:
    if not stack.is_running():
        raise UsageError(f"the stack in {stack.home.root} does not run. Fix: make up")
    # Health is assessed with the values that the stack's own processes have.
    for variable, value in ((overrides.VARIABLE, stack.overrides), (VARIABLE, stack.streams)):
        if value:
            os.environ[variable] = value
    busy = UsageError(f"another drill runs on {stack.home.root}. Fix: wait for it")
    with locked(stack.home.root / "drill.lock", partial(fail, busy)):
        # An earlier command may have been killed.
        restore(StreamUnderTest(stack, streams.load(STREAM)), board.say)
        yield stack


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(exit_code(main))
