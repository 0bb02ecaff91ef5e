"""What a demo is: a load of one stream, and what it must have come to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rich.console import Console

from local.base import REPO
from local.demo import checks
from local.demo.checks import DemoResult
from local.progress import ProgressDisplay
from local.stack.airflow_api import Airflow
from local.stack.stack import Stack
from sluice.model.spec import stream
from sluice.model.spec.stream import StreamSpec


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

    def prepare(self, stack: Stack, board: ProgressDisplay) -> None:  # noqa: B027  not every demo has to
        """Before Airflow is told anything. Raises UsageError when it cannot."""

    def ready(self, api: Airflow) -> None:
        """Before the load is triggered; both DAGs are there. The stream stays supervised after the demo."""
        for dag in (self.load, self.supervision):
            api.unpause(dag)

    def params(self) -> dict[str, Any]:
        """Of the load."""
        return {}

    def watch(self, stack: Stack, api: Airflow, tasks: Sequence[dict[str, Any]]) -> None:  # noqa: B027
        """About once a second while the load goes on: its tasks as they are."""

    @abstractmethod
    def collect(self, stack: Stack, console: Console, took: dict[str, float]) -> DemoResult:
        """Reads every figure from the system that owns it; may wait for what still has to come, and adds the
        seconds of that to `took`."""

    def show(self, stack: Stack, console: Console) -> None:  # noqa: B027
        """Below the table of figures."""


def s3_calls(stack: Stack) -> int | None:
    """All S3 calls since MinIO's start; None with an S3 that is not ours."""
    return None if stack.context.external is not None else sum(stack.minio_requests().values())


def bucket(stack: Stack, calls: int | None) -> DemoResult:
    """Objects, versions and delete markers under the warehouse's prefix; and the load's S3 calls."""
    where = urlsplit(stack.platform("airflow").lake.warehouse)
    pages = stack.s3("airflow").get_paginator("list_object_versions")
    objects = versions = markers = 0
    for page in pages.paginate(Bucket=where.netloc, Prefix=where.path.strip("/") + "/"):
        listed = page.get("Versions", [])
        versions += len(listed)
        objects += sum(1 for version in listed if version.get("IsLatest"))
        markers += len(page.get("DeleteMarkers", []))
    return checks.bucket(objects, versions, markers, calls)
