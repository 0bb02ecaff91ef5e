"""A demo: a load of one stream, its figures and checks."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from local.base import REPO
from local.demo import checks
from local.demo.checks import DemoResult
from local.progress import ProgressDisplay
from local.services import minio
from local.stack.base import BaseStack
from sluice.cli.airflow_api import Airflow
from sluice.clients.s3.objects import Bucket
from sluice.clients.s3.requests import split_prefix
from sluice.config import streams
from sluice.config.folders import VARIABLE
from sluice.config.stream import StreamSpec


class Demo(ABC):
    """One stream's demo. `feed`: the feeds that the stack's producers read; None: unchanged. `folder`: has
    the stream, if that is not one of every stack; the stack keeps it."""

    feed: str | None = None
    folder: Path | None = None

    def __init__(self, name: str) -> None:
        known = {**os.environ, VARIABLE: str(self.folder)} if self.folder else os.environ
        self.spec: StreamSpec = streams.load(name, known)
        self.load = f"{name}_load"
        self.supervision = f"{name}_stream"

    @property
    def result(self) -> Path:
        """The file of the figures."""
        return REPO / "build" / f"demo-{self.spec.name}.json"

    def prepare(self, stack: BaseStack, board: ProgressDisplay) -> None:  # noqa: B027  not every demo has to
        """Before the DAGs are unpaused. Raises UsageError."""

    def ready(self, api: Airflow) -> None:
        """Before the load is triggered; both DAGs exist. The stream stays supervised after the demo."""
        for dag in (self.load, self.supervision):
            api.unpause(dag)

    def params(self) -> dict[str, Any]:
        """The load's params."""
        return {}

    def watch(self, stack: BaseStack, api: Airflow, tasks: Sequence[dict[str, Any]]) -> None:  # noqa: B027
        """About once a second during the load, with its tasks."""

    @abstractmethod
    def collect(self, stack: BaseStack, console: Console, took: dict[str, float]) -> DemoResult:
        """Read every figure from its system; may wait for it, and adds those seconds to `took`."""

    def show(self, stack: BaseStack, console: Console) -> None:  # noqa: B027
        """Printed below the table of figures."""


def s3_calls(stack: BaseStack) -> int | None:
    """All S3 calls since MinIO's start; None with an external S3."""
    return None if stack.context.external is not None else sum(minio.requests(stack.context).values())


def bucket(stack: BaseStack, calls: int | None) -> DemoResult:
    """The objects under the warehouse's prefix, and the load's S3 calls."""
    name, prefix = split_prefix(stack.platform("airflow").lake.warehouse)
    entries = list(Bucket(stack.s3("airflow"), name).entries(f"{prefix}/"))
    markers = sum(entry.is_delete_marker for entry in entries)
    objects = sum(entry.is_latest and not entry.is_delete_marker for entry in entries)
    return checks.bucket(objects, len(entries) - markers, markers, calls)
