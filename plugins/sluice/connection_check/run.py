"""Ask all ends side by side, each with a deadline: one that stands still costs its own time, once."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from sluice.config.reading.toml import ConfigError
from sluice.connection_check.rows import Row, judge
from sluice.core.errors import ClientError
from sluice.core.messages import quoted

# More than the deadlines of all requests that an end is asked one after the other.
END_SECONDS = 40.0
# At once: threads that wait, for the most part.
AT_ONCE = 16
# A secret of fewer characters is in many a word.
_SHORT = 5
Say = Callable[[str], None]


@dataclass(frozen=True)
class End:
    """``row``: what is known of it before it is asked. ``ask`` fills the first of its rows, and may add
    some. ``secrets``: texts that no row shows, which ``ask`` may add to."""

    row: Row
    ask: Callable[[list[Row]], None] = field(repr=False)
    secrets: list[str] = field(default_factory=list, repr=False)


def look(
    ends: Sequence[End],
    say: Say = lambda _: None,
    seconds: float = END_SECONDS,
    clock: Callable[[], float] = time.time,
    secrets: Iterable[str] = (),
) -> list[Row]:
    """The rows of all ends, in their order. ``say``: hears of each end that is done; ``seconds``: for each of
    them; ``secrets``: texts that no row shows, whatever a client says."""
    places = threading.Semaphore(AT_ONCE)
    looks = [_Look(end, places) for end in ends]
    for one in looks:
        one.start()
    rows: list[Row] = []
    for number, one in enumerate(looks, 1):
        rows += one.rows(seconds)
        say(f"{number} of {len(looks)}: {one.end.row.where}")
    hidden = _hidden([*secrets, *(secret for end in ends for secret in end.secrets)])
    for row in rows:
        judge(row, clock())
        row.problems = [_without(text, hidden) for text in row.problems]
        row.remarks = [_without(text, hidden) for text in row.remarks]
        row.not_looked_at = _without(row.not_looked_at, hidden)
    return rows


def _hidden(secrets: Iterable[str]) -> list[str]:
    """As they are, and as they read in a URL; the longest first, since one may be a part of another."""
    forms = {form for secret in secrets for form in (secret, quote(secret, safe=""))}
    return sorted((form for form in forms if len(form) >= _SHORT), key=len, reverse=True)


def _without(text: str, hidden: Iterable[str]) -> str:
    for secret in hidden:
        text = text.replace(secret, "***")
    return text


class _Look(threading.Thread):
    """A daemon: what hangs ends with the process."""

    def __init__(self, end: End, places: threading.Semaphore) -> None:
        super().__init__(name=f"check {end.row.where}", daemon=True)
        self.end, self._places = end, places
        self._rows = [copy.deepcopy(end.row)]
        self._began = threading.Event()

    def run(self) -> None:
        with self._places:
            self._began.set()
            found = self._rows[0]
            try:
                self.end.ask(self._rows)
            except (ClientError, ConfigError) as error:
                found.problems.append(str(error))
            except BaseException as error:
                # Also what is no Exception, as a panic of Rust: its end would be well. The other ends are
                # shown, whatever it is. Its text may be long, or of others.
                found.problems.append(f"not looked at: {type(error).__name__}: {quoted(str(error), 300)}")

    def rows(self, seconds: float) -> list[Row]:
        """Wait for the end, from when it is its turn; what was found of it until then."""
        self._began.wait()
        self.join(seconds)
        rows = copy.deepcopy(self._rows)
        if self.is_alive():
            rows[0].problems.append(
                f"it did not answer within {seconds:g} s. Fix: start it, or let this machine reach it"
            )
        return rows
