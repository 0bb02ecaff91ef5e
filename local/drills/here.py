"""`drill --here`: drills on the stack that somebody else started, with a state file that tells how far they
are, so that whoever started them (a task of Airflow, which a drill may kill) can find them again."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from local.drills.drill import Drill
from local.drills.heal import heal
from local.drills.result import Row
from local.drills.run import play_all
from local.drills.site import Site
from local.errors import Problem
from local.home import Home, write_private
from local.progress import Board
from local.stack import Stack
from sluice.model.stream import StreamSpec


def play_here(
    drills: Sequence[Drill], stack: Stack, spec: StreamSpec, board: Board, at_once: bool, ticket: str
) -> list[Row]:
    """On this stack, which must run. `ticket`: names who asked; it stands in the state file.

    Heals first what an earlier drill, killed in the middle, has left. Raises Problem when the stack does not
    run, or another drill is at work on it.
    """
    if not stack.exists or stack.daemon.pid() is None:
        raise Problem(f"the stack in {stack.home.root} does not run: make up")
    with _alone(stack.home):
        rows: list[Row] = []

        def keep(row: Row | None = None, *, state: str = "running", failure: str = "") -> None:
            if row is not None:
                rows.append(row)
            _note(stack.home, ticket, state, rows, failure)

        keep()
        try:
            site = Site(stack, spec)
            heal(site, board.say)
            play_all(drills, site, board, at_once, keep)
        except BaseException as error:
            keep(state="failed", failure=f"{type(error).__name__}: {error}")
            raise
        keep(state="done")
        return rows


def state_file(home: Home) -> Any:
    return home.root / "drills" / "state.json"


@contextmanager
def _alone(home: Home) -> Iterator[None]:
    folder = home.root / "drills"
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Problem(f"another drill is at work on {home.root}: wait for it") from error
        yield


def _note(home: Home, ticket: str, state: str, rows: Sequence[Row], failure: str) -> None:
    """`plugins/sluice/operators/drill.py` reads it."""
    document = {
        "ticket": ticket,
        "pid": os.getpid(),
        "state": state,
        "failure": failure,
        "rows": [row.to_json() for row in rows],
    }
    write_private(state_file(home), json.dumps(document, indent=2) + "\n")
