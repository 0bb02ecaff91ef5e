"""`make drill`: all drills or some, on a stack of its own; with --in-place on the one that runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from local.base import REPO, UsageError, fail, locked, printable
from local.drills import (
    catalog_faults,
    consumer_faults,
    load_faults,
    query_faults,
    record_faults,
    result,
    service_faults,
)
from local.drills.drill import Drill
from local.drills.restore import restore
from local.drills.runner import run_all
from local.drills.stream import StreamUnderTest
from local.progress import ProgressDisplay, new_console
from local.stack.stack import Stack
from sluice.config import stream as streams

STREAM = "nyc_taxi"
HOME = REPO / "build" / "drill-stack"
DISK_BYTES = 2 * 1024**3
# In the order in which they run: the cheap ones first, the full disk last.
DRILLS: dict[str, Drill] = {
    drill.name: drill
    for faults in (consumer_faults, query_faults, load_faults, record_faults, catalog_faults, service_faults)
    for drill in faults.DRILLS
}


def main(names: str, trigger_immediately: bool, in_place: Stack | None = None) -> int:
    """Run drills and show the table, or, in place, their records as JSON lines; 0 if all passed.

    `in_place`: on this running stack, else on one of its own. `trigger_immediately`: supervision is triggered
    and not waited for. Raises UsageError for an unknown name, for external systems, and if the stack does not
    start.
    """
    drills = chosen(names)
    check_embedded(in_place)
    # Ends as Ctrl-C does: the stack is restored, and the disk unmounted.
    signal.signal(signal.SIGTERM, _interrupt)
    with (
        ProgressDisplay() as board,
        own_stack(board) if in_place is None else _running(in_place, board) as stack,
    ):
        stream = StreamUnderTest(stack, streams.load(STREAM))
        found = run_all(
            drills, stream, board, trigger_immediately, lambda one: result.store([one], list(DRILLS))
        )
    if in_place is None:
        new_console().print(result.table(found))
        print(f"Rows: {result.RESULT.relative_to(REPO)}")
    else:
        for one in found:
            print(json.dumps(one.to_json()))
    for one in found:
        if not one.passed:
            print(f"sluice: {one.drill}: {printable(str(one.failures))}", file=sys.stderr)
    return 0 if all(one.passed for one in found) else 1


def check_embedded(in_place: Stack | None) -> None:
    """Raises UsageError if the stack that runs, or a new one, has external systems."""
    external = os.environ.get("SLUICE_EXTERNAL") if in_place is None else in_place.settings["external"]
    if external:
        raise UsageError(
            f"Kafka and S3 are external (SLUICE_EXTERNAL is {external}), and drills inject faults into "
            "embedded ones only. Fix: make drill without SLUICE_EXTERNAL, on a stack of its own"
        )


def chosen(text: str) -> list[Drill]:
    """The drills of a comma-separated list; all for an empty one. Raises UsageError for unknown names."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in DRILLS]
    if unknown:
        raise UsageError(f"no drill {', '.join(unknown)} of DRILL={text}. Fix: give {', '.join(DRILLS)}")
    return [DRILLS[name] for name in names] if names else list(DRILLS.values())


@contextmanager
def _running(stack: Stack, board: ProgressDisplay) -> Iterator[Stack]:
    if not stack.is_running():
        raise UsageError(f"the stack in {stack.home.root} does not run. Fix: make up")
    busy = UsageError(f"another drill runs on {stack.home.root}. Fix: wait for it")
    with locked(stack.home.root / "drill.lock", partial(fail, busy)):
        # An earlier command may have been killed.
        restore(StreamUnderTest(stack, streams.load(STREAM)), board.say)
        yield stack


@contextmanager
def own_stack(board: ProgressDisplay, home: Path = HOME) -> Iterator[Stack]:
    """A new stack on free ports, started; afterwards stopped and its disk unmounted. Its folder stays, with
    the logs, until the next one. Raises UsageError if it does not start."""
    stack = Stack(home, free_ports=True)
    disk = stack.home.data / "minio"
    # After an earlier run, which may have been interrupted.
    if stack.exists:
        stack.down(board)
    _unmount(disk)
    stack.destroy(board)
    stack.home.prepare()
    mounted = _mount(disk)
    board.say(f"the drills' stack is in {home}" + ("" if mounted else "; without root, no disk of its own"))
    try:
        stack.up(board)
        yield stack
    finally:
        stack.down(board)
        _unmount(disk)


def _mount(disk: Path) -> bool:
    # In memory, which takes only what is used.
    if os.geteuid() != 0:
        return False
    disk.mkdir(mode=0o700, exist_ok=True)
    options = ("-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=0700")
    result = subprocess.run(["mount", *options, "sluice-drill", str(disk)], capture_output=True, text=True)
    # Root in a container may not mount; the drill that needs the disk reports it.
    return result.returncode == 0


def _unmount(disk: Path) -> None:
    if disk.is_mount():
        result = subprocess.run(["umount", str(disk)], capture_output=True, text=True)
        if result.returncode != 0:
            raise UsageError(f"{disk} cannot be unmounted: {result.stderr.strip()}. Fix: umount it yourself")


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
