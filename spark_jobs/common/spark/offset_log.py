"""Spark's plan of a batch, from the checkpoint's offset log (``offsets/<batch>``).

A plan is a version line, a line of metadata, and a line of JSON per source. Kafka's source writes topic ->
partition -> end offset; Iceberg's (1.10, ``StreamingOffset``) ``{"version":1,"snapshot_id":…,"position":…}``:
``position`` files of that snapshot, in the order of its manifests; with ``"scan_all_files":true`` of all its
files, else of those that it added.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from spark_jobs.common.spark.checkpoint import Checkpoint

NO_SNAPSHOT = -1


@dataclass(frozen=True)
class Plan:
    """``source``: the newest snapshot that the batch reads, None before the first, with ``files`` of it:
    of those that it added, or of ``all_files``. ``watermark``: ms since 1970, 0 without one; the *next* batch
    drops late rows by it."""

    source: int | None
    files: int
    watermark: int
    all_files: bool = False


def iceberg_offset(snapshot_id: int, position: int) -> str:
    """Iceberg's offset after ``position`` files of all files of a snapshot."""
    return json.dumps(
        {"version": 1, "snapshot_id": snapshot_id, "position": position, "scan_all_files": True}
    )


def plan_of_all_files(metadata: str, snapshot_id: int, files: int) -> list[str]:
    """The plan of a first batch that reads all ``files`` of a snapshot; ``metadata``: Spark's line."""
    return ["v1", metadata, iceberg_offset(snapshot_id, files)]


def planned_end_offsets(checkpoint: Checkpoint, batch_id: int, topic: str) -> dict[int, int]:
    """Partition -> the offset after the batch's last.

    Raises CheckpointCorrupted if the plan is missing, ValueError if it has another form.
    """
    path, _, ends = _read(checkpoint, batch_id)
    if not isinstance(ends, dict) or set(ends) != {topic}:
        names = sorted(ends) if isinstance(ends, dict) else ends
        raise ValueError(f"{path}: offsets of {names}; expected those of {topic!r} alone")
    return {int(partition): int(end) for partition, end in ends[topic].items()}


def read(checkpoint: Checkpoint, batch_id: int) -> Plan:
    """The plan of a batch over the lake. Raises as :func:`planned_end_offsets`."""
    path, metadata, source = _read(checkpoint, batch_id)
    try:
        if source["version"] != 1:
            raise ValueError(f"version {source['version']!r} of the source's offset")
        snapshot = int(source["snapshot_id"])
        return Plan(
            None if snapshot == NO_SNAPSHOT else snapshot,
            max(int(source["position"]), 0),
            int(metadata["batchWatermarkMs"]),
            bool(source["scan_all_files"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: {error!r}; expected v1 with an offset of Iceberg's source") from error


def _read(checkpoint: Checkpoint, batch_id: int) -> tuple[str, Any, Any]:
    path, lines = f"{checkpoint.uri}/offsets/{batch_id}", checkpoint.plan(batch_id)
    if len(lines) != 3 or lines[0] != "v1":
        raise ValueError(f"{path}: {len(lines)} lines, version {lines[:1]}; expected v1 with one source")
    try:
        return path, json.loads(lines[1]), json.loads(lines[2])
    except ValueError as error:
        raise ValueError(f"{path}: not JSON ({error}). Fix: start the stream again") from error
