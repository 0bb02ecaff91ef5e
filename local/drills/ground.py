"""The stack that `make drill` breaks: one of its own, with a disk of its own for MinIO."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local.errors import Problem
from local.paths import REPO
from local.progress import Board
from local.stack import Stack

HOME = REPO / "build" / "drill-stack"
DISK_BYTES = 2 * 1024**3


@contextmanager
def own_stack(board: Board, home: Path = HOME) -> Iterator[Stack]:
    """A fresh stack on free ports, started; afterwards stopped and its disk unmounted.

    Its folder stays, with the logs, until the next one. Raises Problem when it does not start.
    """
    stack = Stack(home, free_ports=True)
    disk = stack.home.data / "minio"
    _clear(stack, disk, board)
    stack.home.prepare()
    mounted = _mount(disk)
    board.say(f"the drills' stack is in {home}" + ("" if mounted else "; without root, no disk of its own"))
    try:
        stack.up(board)
        yield stack
    finally:
        stack.down(board)
        _unmount(disk)


def _clear(stack: Stack, disk: Path, board: Board) -> None:
    """What an earlier, perhaps interrupted, one has left."""
    if stack.exists:
        stack.down(board)
    _unmount(disk)
    stack.wipe(board)


def _mount(disk: Path) -> bool:
    """A disk in memory, of which only what is used is taken. False where only root could."""
    if os.geteuid() != 0:
        return False
    disk.mkdir(mode=0o700, exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=0700", "sluice-drill", str(disk)],
        capture_output=True,
        text=True,
    )
    # Root in a container may not mount; the drill that needs it says so.
    return done.returncode == 0


def _unmount(disk: Path) -> None:
    if disk.is_mount():
        done = subprocess.run(["umount", str(disk)], capture_output=True, text=True)
        if done.returncode != 0:
            raise Problem(f"{disk} cannot be unmounted ({done.stderr.strip()}): umount it yourself")
