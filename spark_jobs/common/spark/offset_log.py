"""What Spark planned for a batch.

Which offsets a micro-batch carries.

``foreachBatch`` is not told, but Spark writes the plan of a batch into the checkpoint's offset log before it
runs it (``offsets/<batch id>``: a version line, a line of metadata, then one line of JSON per source).

What Spark planned for a batch of a query over the lake. Pure: the lines of the checkpoint's offset log in.

A batch reads the table's snapshots up to one of them. Iceberg's source writes ``{"version":1,
"snapshot_id":…,"position":…,"scan_all_files":…}``: so many files of that snapshot, in the order of its
manifests (``StreamingOffset`` of Iceberg 1.10).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sluice.model.verification.ranges import OffsetRanges
from spark_jobs.common.spark.checkpoint import Checkpoint


def planned_end_offsets(checkpoint: Checkpoint, batch_id: int, topic: str) -> dict[int, int]:
    """Partition -> the offset after the batch's last.

    Raises ``checkpoint.CheckpointCorrupted`` where the plan is not there, ValueError where it has another
    form: a batch whose plan cannot be read back is not written.
    """
    lines = checkpoint.plan(batch_id)
    path = f"{checkpoint.uri}/offsets/{batch_id}"
    if len(lines) != 3 or lines[0] != "v1":
        raise ValueError(f"{path}: {len(lines)} lines, version {lines[:1]}; expected v1 with one source")
    try:
        ends = json.loads(lines[2])
    except ValueError as error:
        raise ValueError(f"{path}: its offsets are not JSON ({error}); start the stream again") from error
    if not isinstance(ends, dict) or set(ends) != {topic}:
        found = sorted(ends) if isinstance(ends, dict) else ends
        raise ValueError(f"{path}: offsets of {found}; expected those of {topic!r} alone")
    return {int(partition): int(end) for partition, end in ends[topic].items()}


def batch_ranges(before: Mapping[int, int], ends: Mapping[int, int]) -> OffsetRanges:
    """What lies between two ends. A partition that is new starts at 0, or Spark refuses it as data loss."""
    return OffsetRanges.from_ends(before, ends)


# There is no snapshot yet.
NOTHING = -1


@dataclass(frozen=True)
class Plan:
    """``source``: the newest snapshot that is read, None before the first; so many ``files`` of it.
    ``watermark``: in ms since 1970, 0 where there is none; what the *next* batch leaves out is judged by it.
    """

    source: int | None
    files: int
    watermark: int


def parse(lines: Sequence[str], where: str) -> Plan:
    """Raises ValueError naming ``where`` for lines of another form."""
    try:
        version, about, *offsets = lines
        (offset,) = offsets
        source, metadata = json.loads(offset), json.loads(about)
        if version != "v1" or source["version"] != 1:
            raise ValueError(f"versions {version!r} and {source['version']!r}")
        snapshot = int(source["snapshot_id"])
        return Plan(
            None if snapshot == NOTHING else snapshot,
            max(int(source["position"]), 0),
            int(metadata["batchWatermarkMs"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{where}: {error!r}; expected version v1, metadata, and one offset of Iceberg's source"
        ) from error
