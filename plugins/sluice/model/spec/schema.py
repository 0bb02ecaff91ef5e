"""Columns and partitions: DDL, Avro, Iceberg.

The columns of a table, as a stream that is not Avro declares them: ``schema.ddl``.

By what a table is partitioned: ``partition_by`` of a stream.toml, and what Iceberg says of a table.

The types of columns that are declared in Avro, as Iceberg writes them.

The types of columns that are declared in Spark's DDL, as Iceberg writes them.

Whether a table has the columns that its stream's schema and Sluice's coordinates call for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluice.model.spec.config import ConfigError

if TYPE_CHECKING:
    from sluice.model.spec.stream import StreamSpec

# What Spark and Iceberg both know, so that a table never has another type than was declared.
TYPES = (
    "boolean", "int", "bigint", "float", "double", "string", "binary", "date", "timestamp", "timestamp_ntz",
)  # fmt: skip
_DECIMAL = re.compile(r"decimal\((\d{1,2}),\s*(\d{1,2})\)")
# Sluice's own columns begin like this.
_OURS = ("_kafka_", "_source_")


def parse_ddl(text: str, where: str = "schema.ddl") -> dict[str, str]:
    """Column -> Spark type in lower case, in the order in which they are declared.

    One column per line, ``name TYPE``; ``--`` begins a comment; a comma at the end is allowed. Types are
    those of TYPES, and ``decimal(p, s)``. Raises ConfigError, naming the line, for anything else: a name that
    is not in lower case, or there twice, or one of Sluice's own, an unknown type, no column at all.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        declared = line.split("--", 1)[0].strip().removesuffix(",").strip()
        if not declared:
            continue
        name, kind = (*declared.split(None, 1), "")[:2]
        place = f"{where} line {number}"
        if not re.fullmatch(r"[a-z_][a-z0-9_]*", name):
            raise ConfigError(f"{place}: column {name!r}: use lower-case letters, digits and _")
        if name.startswith(_OURS):
            raise ConfigError(f"{place}: column {name!r}: names in {' and '.join(_OURS)} are Sluice's own")
        if name in found:
            raise ConfigError(f"{place}: column {name!r} is there twice")
        found[name] = _type(kind.strip().lower(), f"{place}: column {name!r}")
    if not found:
        raise ConfigError(f"{where}: no column; write one per line, as name TYPE")
    return found


def _type(kind: str, where: str) -> str:
    decimal = _DECIMAL.fullmatch(kind)
    if decimal and 1 <= int(decimal[1]) <= 38 and int(decimal[2]) <= int(decimal[1]):
        return f"decimal({decimal[1]},{decimal[2]})"
    if kind not in TYPES:
        raise ConfigError(
            f"{where}: type {kind.upper() or 'missing'}: use one of {', '.join(TYPES)}, decimal(p, s)"
        )
    return kind


_COLUMN = re.compile(r"[a-z][a-z0-9_]*")
_TRUNCATE = re.compile(r"truncate\(\s*([0-9]{1,9})\s*,\s*([^,()\s]*)\s*\)")


@dataclass(frozen=True)
class Partition:
    """One field: a ``column`` as it is, or of each value its beginning (``width``: a text's first
    characters, a whole number rounded down to a multiple). ``str()`` is its one spelling."""

    column: str
    width: int | None = None

    def __str__(self) -> str:
        return self.column if self.width is None else f"truncate({self.width}, {self.column})"

    @property
    def sql(self) -> str:
        """For Spark's PARTITIONED BY."""
        quoted = f"`{self.column}`"
        return quoted if self.width is None else f"truncate({self.width}, {quoted})"


def parse(text: str, where: str) -> Partition:
    """``column`` or ``truncate(<width>, column)``. Raises ConfigError naming ``where`` and value."""
    found = _TRUNCATE.fullmatch(text)
    if "(" in text and found is None:
        raise ConfigError(f"{where}: partition {text!r}: write a column, or truncate(<width>, column)")
    column = found[2] if found else text
    if not _COLUMN.fullmatch(column):
        raise ConfigError(f"{where}: column {column!r}: use lower-case letters, digits and _")
    if found and int(found[1]) < 1:
        raise ConfigError(f"{where}: partition {text!r}: its width is {found[1]}; it must be at least 1")
    return Partition(column, int(found[1]) if found else None)


def parse_all(texts: Iterable[str], where: str) -> list[Partition]:
    """Each of them, in their order. Raises ConfigError, also for a column that is there twice."""
    found = [parse(text, where) for text in texts]
    columns = [partition.column for partition in found]
    for column in columns:
        if columns.count(column) > 1:
            raise ConfigError(f"{where}: partition_by names column {column!r} twice; name it once")
    return found


def spelled(column: str, transform: str) -> str:
    """As :class:`Partition` spells it, from a column and Iceberg's name of a transform (``truncate[1]``); of
    transforms that a stream cannot declare too (``day(at)``), for whoever is told of them."""
    if transform == "identity":
        return column
    name, _, width = transform.removesuffix("]").partition("[")
    return f"{name}({width}, {column})" if width else f"{name}({column})"


# Avro's types (and logical types) as Iceberg writes them (Iceberg specification, appendix A).
_TYPES = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
    "enum": "string",
    "date": "date",
    "timestamp-millis": "timestamptz",
    "timestamp-micros": "timestamptz",
    "local-timestamp-millis": "timestamp",
    "local-timestamp-micros": "timestamp",
}
_NESTED = {"map": "map<", "array": "list<", "record": "struct<"}


def avro_iceberg_columns(schema: Mapping[str, Any]) -> dict[str, str]:
    """Column -> Iceberg type of a parsed .avsc; of a nested type its beginning (``map<``)."""
    return {field["name"]: avro_iceberg_type(field["type"]) for field in schema["fields"]}


def avro_iceberg_type(avro: Any) -> str:
    """The Iceberg type of an Avro type; of a nested one its beginning (``map<``); of a union with null the
    other branch's. Raises ValueError for a type that has no column of its own."""
    if isinstance(avro, list):
        branches = [branch for branch in avro if branch != "null"]
        if len(branches) == 1:
            return avro_iceberg_type(branches[0])
    elif isinstance(avro, Mapping):
        if avro.get("logicalType") == "decimal":
            return f"decimal({avro['precision']}, {avro.get('scale', 0)})"
        logical = _TYPES.get(str(avro.get("logicalType")))
        if logical:
            return logical
        return _NESTED.get(avro["type"]) or avro_iceberg_type(avro["type"])
    elif avro in _TYPES:
        return _TYPES[avro]
    raise ValueError(
        f"Avro type {avro!r} has no Iceberg type here; use a primitive, a map, an array or a record"
    )


# Iceberg's documentation, "Spark type to Iceberg type".
_SPARK_TO_ICEBERG = {
    "boolean": "boolean",
    "int": "int",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}


def ddl_iceberg_columns(declared: Mapping[str, str]) -> dict[str, str]:
    """Column -> Iceberg type, of column -> Spark type in lower case. Raises ValueError for an unknown one."""
    return {name: ddl_iceberg_type(kind) for name, kind in declared.items()}


def ddl_iceberg_type(spark: str) -> str:
    """The Iceberg type of a Spark type. Raises ValueError for one that has none here."""
    decimal = re.fullmatch(r"decimal\((\d+),\s*(\d+)\)", spark)
    if decimal:
        return f"decimal({decimal[1]}, {decimal[2]})"
    if spark not in _SPARK_TO_ICEBERG:
        raise ValueError(
            f"Spark type {spark!r} has no Iceberg type here; use one of {', '.join(_SPARK_TO_ICEBERG)}"
        )
    return _SPARK_TO_ICEBERG[spark]


OFFSET_COLUMNS = {
    "_kafka_partition": "int",
    "_kafka_offset": "long",
    "_kafka_timestamp": "timestamptz",
    "_source_id": "string",
    "_source_row": "long",
    "_source_base_offset": "long",
}
# A table may have been widened (Iceberg specification, schema evolution); no value is lost by that.
_WIDER = {"int": "long", "float": "double"}


def schema_problems(spec: StreamSpec, present: Mapping[str, str]) -> list[str]:
    """One sentence for each column that the table lacks or has with another type. ``present``: its columns,
    as Iceberg writes their types. Raises ConfigError or ValueError where the declaration itself is wrong."""
    text = spec.schema_file.read_text()
    if spec.is_avro:
        wanted = avro_iceberg_columns(json.loads(text))
    else:
        wanted = ddl_iceberg_columns(parse_ddl(text, f"{spec.name}/{spec.schema}"))
    return differences(spec.table, wanted, present)


def differences(table: str, wanted: Mapping[str, str], present: Mapping[str, str]) -> list[str]:
    """What of ``wanted`` (column -> Iceberg type, of a nested one its beginning) and of the coordinates is
    not so. Columns beyond these are no problem: an older schema may have had them."""
    problems = []
    for name, kind in {**wanted, **OFFSET_COLUMNS}.items():
        found = present.get(name)
        if found is None:
            problems.append(
                f"schema: table {table} has no column {name} ({kind}); restart the stream's consumer"
            )
        elif not (found in (kind, _WIDER.get(kind)) or (kind.endswith("<") and found.startswith(kind))):
            problems.append(f"schema: column {name} of table {table} is {found}, the stream declares {kind}")
    return problems
