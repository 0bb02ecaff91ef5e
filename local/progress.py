"""Shows long steps while they run: a live table on a terminal, plain lines and a heartbeat elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

HEARTBEAT_SECONDS = 20.0


@dataclass
class Step:
    """One long step: its name, its state (`running`, `done`, `failed`) and the last line of its output."""

    name: str
    began: float = field(default_factory=time.monotonic)
    ended: float | None = None
    state: str = "running"
    last: str = ""

    def line(self, text: str) -> None:
        """Takes note of a line of output; only the last one is shown."""
        text = text.strip()
        if text:
            self.last = text

    @property
    def seconds(self) -> float:
        return (self.ended or time.monotonic()) - self.began


class Board:
    """Shows steps. Use as a context manager; `step` may be called from several threads at once."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(file=sys.stderr)
        self.steps: list[Step] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._live: Live | None = None
        self._beat: threading.Thread | None = None

    def __enter__(self) -> Board:
        if self.console.is_terminal:
            self._live = Live(self, console=self.console, refresh_per_second=4, transient=False)
            self._live.start()
        else:
            self._beat = threading.Thread(target=self._heartbeat, daemon=True)
            self._beat.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._live is not None:
            self._live.stop()
        if self._beat is not None:
            self._beat.join()

    def say(self, text: str) -> None:
        """A line that stays on the screen."""
        self.console.print(f"sluice: {text}", markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        step = Step(name)
        with self._lock:
            self.steps.append(step)
        if self._live is None:
            self.say(f"{name} …")
        try:
            yield step
        except BaseException:
            step.state = "failed"
            raise
        else:
            step.state = "done"
        finally:
            step.ended = time.monotonic()
            if self._live is None:
                self.say(f"{name}: {step.state} in {step.seconds:.1f} s")

    def _heartbeat(self) -> None:
        while not self._stop.wait(HEARTBEAT_SECONDS):
            with self._lock:
                running = [step for step in self.steps if step.state == "running"]
            for step in running:
                self.say(f"{step.name}: {step.seconds:.0f} s so far, last: {step.last or '(no output yet)'}")

    def __rich__(self) -> Table:
        table = Table.grid(padding=(0, 1))
        table.add_column(width=1)
        table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(overflow="ellipsis", no_wrap=True)
        with self._lock:
            steps = list(self.steps)
        for step in steps:
            mark: Spinner | Text = _spinner(step)
            if step.state != "running":
                mark = Text("✓", "green") if step.state == "done" else Text("✗", "red")
            shown = step.last if step.state != "done" else ""
            table.add_row(mark, step.name, f"{step.seconds:.1f} s", Text(shown, style="dim"))
        return table


_SPINNERS: dict[int, Spinner] = {}


def _spinner(step: Step) -> Spinner:
    """One spinner per step: a new one at each refresh would always show its first frame."""
    return _SPINNERS.setdefault(id(step), Spinner("dots"))
