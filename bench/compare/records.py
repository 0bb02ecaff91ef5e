"""The records of a comparison, taxi trips, and the streams that are declared for them."""

from __future__ import annotations

import gzip
import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from local.base import REPO
from sluice.config import folders

PARTITIONS = 10

_STREAM = """\
name = "{name}"
schema = "{schema}"
{decode}
table = "bench.{name}"

[topic]
name = "{topic}"
partitions = {partitions}

[consumer]
trigger_seconds = {trigger_seconds}
max_offsets_per_trigger = {max_offsets_per_trigger}
direct = {direct}

[budget]
s3_calls_per_batch = 25
versions_per_batch = 20

{source}
"""
_CSV = """\
[csv]
time_formats = ["MM/dd/yyyy hh:mm:ss a"]
extra_columns = "other_columns"
"""
# Its records are another stream's, as JSON: the generator is never asked.
_GENERATED = '[generator]\nrows = "transforms:trips"\n'
_TRANSFORMS = '''\
"""Decode taxi trips from JSON."""

from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from spark_jobs.common.spark.columns import computed


def trips(rows, schema):
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt"}
    whole = StructType([*schema, StructField("_corrupt", StringType())])
    parsed = computed(rows, parsed=F.from_json(F.col("value").cast("string"), whole, options))
    fields = [F.col("parsed")[name].alias(name) for name in schema.names]
    is_bad = F.col("parsed").isNull() | F.col("parsed._corrupt").isNotNull()
    reason = F.when(is_bad, F.lit("the value is no trip as JSON"))
    return computed(parsed, record=F.struct(*fields), reason=reason).drop("parsed")
'''


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
    """Its records are JSON, by Spark's path decoded by a function of the stream; else Avro with the taxi
    trips' schema."""
    is_direct: bool = True
    """As `[consumer] direct`."""

    def write(self, folder: Path) -> None:
        values = asdict(self)
        values["schema"] = "schema.ddl" if self.is_json else "schema.avsc"
        has_decode = self.is_json and not self.is_direct
        values["decode"] = 'decode = "transforms:trips"' if has_decode else ""
        values["direct"] = str(self.is_direct).lower()
        values["source"] = _GENERATED if self.is_json else _CSV
        (folder / self.name).mkdir()
        (folder / self.name / "stream.toml").write_text(_STREAM.format(**values))
        if self.is_json:
            ddl = "\n".join(f"{name} {kind.upper()}" for name, kind in json_columns().items())
            (folder / self.name / "schema.ddl").write_text(ddl + "\n")
            (folder / self.name / "transforms.py").write_text(_TRANSFORMS)
            (folder / self.name / "__init__.py").touch()
        else:
            shutil.copy(folders.STREAMS / "nyc_taxi" / "schema.avsc", folder / self.name)


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
