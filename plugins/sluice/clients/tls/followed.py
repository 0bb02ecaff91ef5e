"""Files that are read again after they were replaced, while a process runs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger(__name__)

State = tuple[tuple[int, int, int], ...]


def state(files: tuple[str, ...]) -> State | None:
    """What changes when a file is replaced; None while one is missing."""
    try:
        found = [Path(path).stat() for path in files]
    except OSError:
        return None
    return tuple((one.st_ino, one.st_mtime_ns, one.st_size) for one in found)


class Followed:
    """``files``: each is replaced under its name; they are as new as this object. ``what``: whose they are.
    ``read``: reads them again. What it raises is said once, and what was read before stays in use:
    certificate and key are replaced one after the other, and a later look may find files that fit."""

    def __init__(self, files: tuple[str, ...], what: str, read: Callable[[], object]) -> None:
        self.files, self._what, self._read = files, what, read
        self._seen = state(files)
        self._said = ""

    def is_due(self) -> bool:
        """Whether files were replaced since they were read."""
        found = state(self.files)
        return found is not None and found != self._seen

    def forget(self) -> None:
        """They are read at the next look."""
        self._seen = None

    def follow(self) -> bool:
        """Read the files if they were replaced; whether they were read."""
        found = state(self.files)
        if found is None:
            away = next((path for path in self.files if not Path(path).exists()), "a file")
            self._say(f"{away} is missing")
            return False
        if found == self._seen:
            self._said = ""
            return False
        try:
            self._read()
        except Exception as error:
            # Errors of Java come with a stack.
            self._say(str(error).strip().partition("\n")[0])
            return False
        self._seen, self._said = found, ""
        log.info("%s read again files=%s", self._what, ",".join(self.files))
        return True

    def _say(self, reason: str) -> None:
        if reason != self._said:
            log.warning("%s not read again, those before are in use: %s", self._what, reason)
        self._said = reason
