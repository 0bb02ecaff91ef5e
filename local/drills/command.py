"""`make drill`: all drills or some, on a stack of its own; with --here on the one that runs."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from local.drills import catalogue, result
from local.drills.drill import Drill
from local.drills.ground import own_stack
from local.drills.here import play_here
from local.drills.result import Row
from local.drills.run import play_all
from local.drills.site import Site
from local.paths import REPO
from local.progress import Board
from local.screen import screen
from local.stack import Stack
from sluice.model import stream

STREAM = "nyc_taxi"


def main(names: str, at_once: bool, here: Stack | None = None, ticket: str = "") -> int:
    """Plays them and shows the table; 0 when all have passed. `here`: on this stack; else on one of its own.

    `at_once`: supervision is triggered and not waited for. Raises Problem for an unknown name, and when the
    stack does not start.
    """
    drills = catalogue.chosen(names)
    # Ends as Ctrl-C does: what was broken is mended, and the disk unmounted.
    signal.signal(signal.SIGTERM, _interrupt)
    rows: list[Row] = []
    with Board() as board:
        if here is not None:
            rows = play_here(drills, here, stream.load(STREAM), board, at_once, ticket)
            result.store(rows, list(catalogue.DRILLS))
        else:
            rows = _on_its_own(drills, board, at_once)
    screen().print(result.table(rows))
    for row in rows:
        if not row.passed:
            print(f"sluice: {row.drill}: {row.why_not}", file=sys.stderr)
    print(f"Rows: {result.RESULT.relative_to(REPO)}")
    return 0 if all(row.passed for row in rows) else 1


def _on_its_own(drills: Sequence[Drill], board: Board, at_once: bool) -> list[Row]:
    order = list(catalogue.DRILLS)
    with own_stack(board) as stack:
        site = Site(stack, stream.load(STREAM))
        return play_all(drills, site, board, at_once, lambda row: result.store([row], order))


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
