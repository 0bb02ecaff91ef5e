"""Spark's plan of a batch, from the checkpoint's offset log (``offsets/<batch>``).

A plan is a version line, a line of metadata, and a line of JSON per source. Kafka's source writes topic ->
partition -> end offset; Iceberg's (1.10, ``StreamingOffset``) ``{"version":1,"snapshot_id":…,"position":…}``:
``position`` files of that snapshot, in the order of its manifests.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spark_jobs.common.spark.checkpoint import Checkpoint

NO_SNAPSHOT = -1


@dataclass(frozen=True)
class Plan:
    """``source``: the newest snapshot that the batch reads, None before the first, with ``files`` of it.
    ``watermark``: ms since 1970, 0 without one; the *next* batch drops late rows by it."""

    source: int | None
    files: int
    watermark: int


def planned_end_offsets(checkpoint: Checkpoint, batch_id: int, topic: str) -> dict[int, int]:
    """Partition -> the offset after the batch's last.

    Raises CheckpointCorrupted if the plan is missing, ValueError if it has another form.
    """
    path = f"{checkpoint.uri}/offsets/{batch_id}"
    _, ends = _read(checkpoint.plan(batch_id), path)
    if not isinstance(ends, dict) or set(ends) != {topic}:
        names = sorted(ends) if isinstance(ends, dict) else ends
        raise ValueError(f"{path}: offsets of {names}; expected those of {topic!r} alone")
    return {int(partition): int(end) for partition, end in ends[topic].items()}


def parse(lines: Sequence[str], where: str) -> Plan:
    """Parse the plan of a batch over the lake. Raises ValueError, naming ``where``, for another form."""
    metadata, source = _read(lines, where)
    try:
        if source["version"] != 1:
            raise ValueError(f"version {source['version']!r} of the source's offset")
        snapshot = int(source["snapshot_id"])
        return Plan(
            None if snapshot == NO_SNAPSHOT else snapshot,
            max(int(source["position"]), 0),
            int(metadata["batchWatermarkMs"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{where}: {error!r}; expected v1 with an offset of Iceberg's source") from error


def _read(lines: Sequence[str], where: str) -> tuple[Any, Any]:
    if len(lines) != 3 or lines[0] != "v1":
        raise ValueError(f"{where}: {len(lines)} lines, version {lines[:1]}; expected v1 with one source")
    try:
        return json.loads(lines[1]), json.loads(lines[2])
    except ValueError as error:
        raise ValueError(f"{where}: not JSON ({error}). Fix: start the stream again") from error
