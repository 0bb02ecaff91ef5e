"""What Spark planned for a batch of a query over the lake. Pure: the lines of the checkpoint's offset log in.

A batch reads the table's snapshots up to one of them. Iceberg's source writes ``{"version":1,
"snapshot_id":…,"position":…,"scan_all_files":…}``: so many files of that snapshot, in the order of its
manifests (``StreamingOffset`` of Iceberg 1.10).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

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
