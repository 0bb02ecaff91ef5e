"""Where a feed that grows with the clock goes on after its server was away."""

from __future__ import annotations

import json
from pathlib import Path

from local.errors import Problem
from local.home import write_private

# More than what comes between two looks at the clock, also in a burst.
AHEAD_SECONDS = 10
AHEAD_EVENTS = 5_000


class Place:
    """The next event's number, kept in a file. While the server runs the file is ahead of it: a killed one
    goes on beyond every number that a client may have been given, so none of them waits for it to catch up.
    """

    def __init__(self, path: Path | None, rate: float) -> None:
        """Without a path nothing is kept. Raises Problem for a file that is none."""
        self._path = path
        self._ahead = max(AHEAD_EVENTS, int(rate * AHEAD_SECONDS))
        self._kept = 0
        if path is not None and path.exists():
            try:
                self._kept = int(json.loads(path.read_text())["next"])
            except (ValueError, KeyError, TypeError) as error:
                raise Problem(f"{path}: not a replay server's place ({error}); remove it") from error

    @property
    def first(self) -> int:
        """The number that the feed goes on with."""
        return self._kept

    def reached(self, following: int) -> None:
        """The feed has come to here: `following` is the next event's number."""
        if following >= self._kept:
            self._write(following + self._ahead)

    def close(self, following: int) -> None:
        """An orderly end: nothing needs to be skipped."""
        self._write(following)

    def _write(self, number: int) -> None:
        self._kept = number
        if self._path is not None:
            write_private(self._path, json.dumps({"next": number}) + "\n")
