"""A CSV stream as a person adds one: a folder with stream.toml and a schema, nothing else."""

from __future__ import annotations

import json
from pathlib import Path

NAME = "rides"
TOML = """\
name = "rides"
schema = "schema.avsc"
table = "raw.rides"

[csv]
time_formats = ["dd.MM.yyyy HH:mm"]

[topic]
name = "rides"
partitions = 2

[budget]
versions_per_batch = 20
"""
SCHEMA = {
    "type": "record",
    "name": "Ride",
    "namespace": "rides",
    "fields": [
        {"name": "ride_id", "type": "string"},
        {"name": "started", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "distance_km", "type": ["null", "double"], "default": None},
    ],
}
HEADER = "ride_id,started,distance_km"


def make(root: Path) -> Path:
    """Write the stream's folder below ``root``, one of SLUICE_STREAMS; return ``root``."""
    folder = root / NAME
    folder.mkdir(parents=True)
    (folder / "stream.toml").write_text(TOML)
    (folder / "schema.avsc").write_text(json.dumps(SCHEMA))
    return root


def csv(rows: int, malformed: int = 0) -> bytes:
    """Rows of which the last ``malformed`` have no time."""
    lines = [f"r{n},{n % 28 + 1:02}.02.2026 08:30,{n}.5" for n in range(rows - malformed)]
    lines += [f"bad{n},soon," for n in range(malformed)]
    return "\n".join([HEADER, *lines, ""]).encode()
