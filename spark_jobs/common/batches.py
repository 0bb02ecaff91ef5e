"""Which offsets a micro-batch carries.

``foreachBatch`` is not told, but Spark writes the plan of a batch into the checkpoint's offset log before it
runs it (``offsets/<batch id>``: a version line, a line of metadata, then one line of JSON per source).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from sluice.model.ranges import RangeSet


def planned_ends(checkpoint: Path, batch_id: int, topic: str) -> dict[int, int]:
    """Partition -> the offset after the batch's last. Raises ValueError where the log has another form."""
    path = checkpoint / "offsets" / str(batch_id)
    lines = path.read_text().splitlines()
    if len(lines) != 3 or lines[0] != "v1":
        raise ValueError(f"{path}: {len(lines)} lines, version {lines[:1]}; expected v1 with one source")
    ends = json.loads(lines[2])
    if set(ends) != {topic}:
        raise ValueError(f"{path}: offsets of {sorted(ends)}; expected those of {topic!r} alone")
    return {int(partition): int(end) for partition, end in ends[topic].items()}


def batch_ranges(before: Mapping[int, int], ends: Mapping[int, int]) -> RangeSet:
    """What lies between two ends. A partition that is new starts at 0, or Spark refuses it as data loss."""
    return RangeSet.from_ends(before, ends)
