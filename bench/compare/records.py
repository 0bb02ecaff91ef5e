"""The records of a comparison, taxi trips, and the streams that are declared for them, and for orders."""

from __future__ import annotations

import gzip
import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.compare import orders
from local.base import REPO
from sluice.config import folders

PARTITIONS = 10

_HEAD = """\
name = "{name}"
schema = "{schema}"
table = "bench.{name}"

[consumer]
trigger_seconds = {trigger_seconds}
max_offsets_per_trigger = {max_offsets_per_trigger}

[budget]
s3_calls_per_batch = 25
versions_per_batch = 20

[topic]
name = "{topic}"
"""
_STREAM = f"""{_HEAD}partitions = {{partitions}}

{{source}}
"""
_OTHERS = f"""{_HEAD}managed = false
start = "earliest"

[records]
format = "{{format}}"
registry = {{registry}}
key = "text"
"""
_CSV = """\
[csv]
time_formats = ["MM/dd/yyyy hh:mm:ss a"]
extra_columns = "other_columns"
"""
# Its records are another stream's, as JSON: the generator is never asked.
_GENERATED = '[generator]\nrows = "transforms:trips"\n'


@dataclass(frozen=True)
class Declared:
    """A stream of taxi trips for a measurement."""

    name: str
    """The stream's folder, and its table in namespace `bench`."""
    topic: str
    """Kafka's; streams whose turns come one after the other may read the same one."""
    trigger_seconds: int = 5
    """As in `[consumer]` of stream.toml: seconds between two batches."""
    max_offsets_per_trigger: int = 3_000_000
    """As there: records of a batch at most, over all partitions."""
    partitions: int = PARTITIONS
    """Number of the topic's."""
    is_json: bool = False
    """Its records are JSON; else Avro with the taxi trips' schema."""

    def write(self, folder: Path) -> None:
        values = asdict(self)
        values["schema"] = "schema.ddl" if self.is_json else "schema.avsc"
        values["source"] = _GENERATED if self.is_json else _CSV
        (folder / self.name).mkdir()
        (folder / self.name / "stream.toml").write_text(_STREAM.format(**values))
        if self.is_json:
            ddl = "\n".join(f"{name} {kind.upper()}" for name, kind in json_columns().items())
            (folder / self.name / "schema.ddl").write_text(ddl + "\n")
        else:
            shutil.copy(folders.STREAMS / "nyc_taxi" / "schema.avsc", folder / self.name)


@dataclass(frozen=True)
class DeclaredOthers(Declared):
    """A stream of orders, of a topic that others fill: JSON, or Avro with a registry."""

    def write(self, folder: Path) -> None:
        schema, text = "schema.avsc", orders.AVRO
        if self.is_json:
            schema, text = "schema.ddl", "".join(f"{name} {kind}\n" for name, kind in orders.FLAT.items())
        values = asdict(self) | {"schema": schema, "format": "json" if self.is_json else "avro"}
        values["registry"] = "false" if self.is_json else "true"
        (folder / self.name).mkdir()
        (folder / self.name / "stream.toml").write_text(_OTHERS.format(**values))
        (folder / self.name / schema).write_text(text)


def schema_text() -> str:
    return (folders.STREAMS / "nyc_taxi" / "schema.avsc").read_text()


def csv_columns() -> dict[str, str]:
    """The columns of the CSV objects with Spark's types, in their order."""
    types = _types()
    return {name: types[name] for name in sample_rows()[0].split(",")}


def json_columns() -> dict[str, str]:
    """The same of the JSON records: a stream's columns are lower case."""
    return {name.lower(): kind for name, kind in csv_columns().items()}


def missing_columns() -> dict[str, str]:
    """The columns of the schema that the CSV objects do not have."""
    header = sample_rows()[0].split(",")
    return {name: kind for name, kind in _types().items() if name not in header}


_SPARK_TYPES = {"int": "int", "double": "double", "string": "string"}


def _types() -> dict[str, str]:
    found = {}
    for field in json.loads(schema_text())["fields"]:
        kinds = field["type"] if isinstance(field["type"], list) else [field["type"]]
        (kind,) = [one for one in kinds if one != "null"]
        complex_kind = (
            "timestamp_ntz" if isinstance(kind, dict) and "logicalType" in kind else "map<string,string>"
        )
        found[field["name"]] = complex_kind if isinstance(kind, dict) else _SPARK_TYPES[kind]
    return found


def sample_rows() -> list[str]:
    sample = REPO / "samples" / "nyc_taxi" / "taxi-data.csv.gz"
    return gzip.decompress(sample.read_bytes()).decode().splitlines()
