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


# The columns that the taxi stream requires, and one of text.
TAXI_HEADER = (
    "tpep_pickup_datetime,tpep_dropoff_datetime,trip_distance,PULocationID,DOLocationID,fare_amount,extra,mta_tax,"
    "tip_amount,tolls_amount,improvement_surcharge,total_amount,store_and_fwd_flag"
)


def taxi_ride(text: str) -> str:
    """A row of a taxi file with this text."""
    return f"2018-02-08 05:07:37,2018-02-08 05:17:37,1,1,2,{'1,' * 7}{text}"
