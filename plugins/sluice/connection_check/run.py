"""Ask all ends side by side, each with a deadline: one that stands still costs its own time, once."""

from __future__ import annotations

import copy
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from urllib.parse import quote

from sluice.config.reading.toml import ConfigError
from sluice.connection_check.deadlines import END_SECONDS
from sluice.connection_check.rows import Row, judge, with_fix
from sluice.core.errors import ClientError
from sluice.core.messages import quoted

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
    them, from its turn on; ``secrets``: texts that no row shows, whatever a client says."""
    done = SimpleQueue[_Look]()
    looks = [_Look(end, done) for end in ends]
    waiting, running = deque(looks), list[_Look]()
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            running.append(waiting.popleft())
            running[-1].begin(seconds)
        try:
            # Those that began first are over first.
            over = done.get(timeout=max(running[0].until - time.monotonic(), 0))
        except Empty:
            over = running[0]
        # One that was left alone may end later.
        if over in running:
            running.remove(over)
            over.note(seconds)
            say(f"{len(looks) - len(waiting) - len(running)} of {len(looks)}: {over.end.row.where}")
    rows = [row for one in looks for row in one.rows]
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
    """A daemon: what hangs ends with the process. ``done``: gets it when it has ended."""

    def __init__(self, end: End, done: SimpleQueue[_Look]) -> None:
        super().__init__(name=f"check {end.row.where}", daemon=True)
        self.end, self._done = end, done
        self._found = [copy.deepcopy(end.row)]
        # By the monotonic clock.
        self.until = 0.0
        self._ended = threading.Event()
        # What was found until then.
        self.rows: list[Row] = []

    def begin(self, seconds: float) -> None:
        self.until = time.monotonic() + seconds
        self.start()

    def run(self) -> None:
        found = self._found[0]
        try:
            self.end.ask(self._found)
        except (ClientError, ConfigError) as error:
            found.problems.append(with_fix(error))
        except BaseException as error:
            # Also what is no Exception, as a panic of Rust: its end would be well. The other ends are
            # shown, whatever it is. Its text may be long, or of others.
            found.problems.append(f"not looked at: {type(error).__name__}: {quoted(str(error), 300)}")
        finally:
            self._ended.set()
            self._done.put(self)

    def note(self, seconds: float) -> None:
        """Take what was found; ``seconds``: that it had."""
        is_late = not self._ended.is_set()
        self.rows = copy.deepcopy(self._found)
        if is_late:
            self.rows[0].problems.append(
                f"it did not answer within {seconds:g} s. Fix: start it, or let this machine reach it"
            )
