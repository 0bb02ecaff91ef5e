"""What a demo is: a load of one stream, and what it must have come to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console

from local.airflow_client import Airflow
from local.paths import REPO
from local.progress import Board
from local.stack import Stack
from sluice.model import stream
from sluice.model.stream import StreamSpec

# A figure's name, its value (None: not counted), and the system that it was read from.
Line = tuple[str, int | None, str]


@dataclass(frozen=True)
class Run:
    """The load as it went: how it ended, S3 calls meanwhile (None: not counted), seconds by what took them,
    and the clock's reading at the demo's begin."""

    state: str
    calls: int | None
    took: dict[str, float]
    began: float


class Result(Protocol):
    """What a demo came to."""

    @property
    def seconds(self) -> dict[str, float]: ...

    def lines(self) -> Sequence[Line]:
        """What is shown."""

    def complaints(self) -> list[str]:
        """Everything that is not as it must be, each with its numbers; empty when the demo is green."""

    def to_json(self) -> dict[str, object]:
        """What is written."""


class Demo(ABC):
    """One stream's demo. `feed`: whose feeds the stack's producers read; None leaves that as it is."""

    feed: str | None = None

    def __init__(self, name: str) -> None:
        self.spec: StreamSpec = stream.load(name)
        self.load = f"{name}_load"
        self.supervision = f"{name}_stream"

    @property
    def result(self) -> Path:
        """Where the figures are written."""
        return REPO / "build" / f"demo-{self.spec.name}.json"

    def prepare(self, stack: Stack, board: Board) -> None:  # noqa: B027  not every demo has to
        """Before Airflow is told anything. Raises Problem when it cannot."""

    @abstractmethod
    def ready(self, api: Airflow) -> None:
        """Before the load is triggered; both DAGs are there."""

    def params(self) -> dict[str, Any]:
        """Of the load."""
        return {}

    def watch(self, stack: Stack, api: Airflow, tasks: Sequence[dict[str, Any]]) -> None:  # noqa: B027
        """About once a second while the load goes on: its tasks as they are."""

    @abstractmethod
    def collect(self, stack: Stack, console: Console, run: Run) -> Result:
        """Reads every figure from the system that owns it; may wait for what still has to come."""

    def show(self, stack: Stack, console: Console, result: Any) -> None:  # noqa: B027
        """Below the table of figures."""
