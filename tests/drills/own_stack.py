"""A stack of the drills' own, whose MinIO has a disk that can be filled."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local.base import REPO, UsageError
from local.progress import ProgressDisplay
from local.stack.stack import Stack

HOME = REPO / "build" / "drill-stack"
DISK_BYTES = 2 * 1024**3


@contextmanager
def own_stack(board: ProgressDisplay) -> Iterator[Stack]:
    """A new stack on free ports, started; afterwards stopped and its disk unmounted. Its folder stays, with
    the logs, until the next one. Raises UsageError if it does not start."""
    stack = Stack(HOME, free_ports=True)
    disk = stack.home.data / "minio"
    # After an earlier run, which may have been interrupted.
    if stack.exists:
        stack.down(board)
    _unmount(disk)
    stack.destroy(board)
    stack.home.prepare()
    mounted = _mount(disk)
    board.say(f"the drills' stack is in {HOME}" + ("" if mounted else "; without root, no disk of its own"))
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
