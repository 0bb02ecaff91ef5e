"""Shows long steps while they run: live on a terminal, else plain lines and a heartbeat."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from sluice.cli.base import printable
from sluice.cli.terminal import print_line

HEARTBEAT_SECONDS = 20.0


@dataclass(frozen=True)
class Step:
    """One long step."""

    task: Task

    @property
    def name(self) -> str:
        return self.task.description

    def line(self, text: str) -> None:
        """Record a line of output; the display shows the last one."""
        if text.strip():
            self.task.fields["last"] = printable(text.strip())


class _StateColumn(ProgressColumn):
    def __init__(self) -> None:
        super().__init__()
        self._spinner = SpinnerColumn()

    def render(self, task: Task) -> RenderableType:
        end = {"done": Text("✓", "green"), "failed": Text("✗", "red")}
        return end.get(task.fields["state"]) or self._spinner.render(task)


class ProgressDisplay:
    """A context manager that shows steps; `step` is thread-safe."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(file=sys.stderr)
        self._progress = Progress(
            _StateColumn(),
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
            TextColumn("{task.elapsed:.1f} s", table_column=Column(no_wrap=True, justify="right")),
            TextColumn(
                "{task.fields[last]}",
                style="dim",
                markup=False,
                table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1),
            ),
            console=self.console,
            expand=True,
            refresh_per_second=4,
            disable=not self.console.is_terminal,
        )
        self._stop = threading.Event()
        self._heartbeat_thread = threading.Thread(target=self._heartbeat, daemon=True)

    def __enter__(self) -> ProgressDisplay:
        self._progress.start()
        if self._progress.disable:
            self._heartbeat_thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._progress.stop()
        if self._progress.disable:
            self._heartbeat_thread.join()

    def say(self, text: str) -> None:
        """Print a line that stays on the screen."""
        print_line(self.console, f"sluice: {text}")

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        number = self._progress.add_task(name, total=1, state="running", last="")
        task = next(task for task in self._progress.tasks if task.id == number)
        if self._progress.disable:
            self.say(f"{name} …")
        try:
            yield Step(task)
            task.fields |= {"state": "done", "last": ""}
        except BaseException:
            task.fields["state"] = "failed"
            raise
        finally:
            self._progress.stop_task(number)
            if self._progress.disable:
                self.say(f"{name}: {task.fields['state']} in {task.elapsed or 0:.1f} s")

    def _heartbeat(self) -> None:
        while not self._stop.wait(HEARTBEAT_SECONDS):
            for task in self._progress.tasks:
                if task.fields["state"] == "running":
                    last = task.fields["last"] or "(no output yet)"
                    self.say(f"{task.description}: {task.elapsed or 0:.0f} s so far, last: {last}")
