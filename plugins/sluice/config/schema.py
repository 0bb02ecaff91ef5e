"""Columns and partitions of a table: Avro schema, DDL, Iceberg types."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluice.config.query import result_types
from sluice.config.reading.files import declared_text
from sluice.config.reading.names import check_avro, check_column
from sluice.config.reading.toml import IDENTIFIER, IDENTIFIER_FIX, ConfigError
from sluice.config.reading.values import shown

if TYPE_CHECKING:
    from pathlib import Path

    from sluice.config.stream import StreamSpec

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
# Known to both, so that a table never has another type than was declared.
TYPES = tuple(_SPARK_TO_ICEBERG)
_DECIMAL = re.compile(r"decimal\((\d{1,2}),\s*(\d{1,2})\)")


def parse_ddl(text: str, where: str = "schema.ddl") -> dict[str, str]:
    """Column -> Spark type in lower case, in the declared order.

    One column per line, ``name TYPE``, with a comma or not; ``--`` begins a comment. Types: TYPES, and
    ``decimal(p, s)``. Raises ConfigError naming the line.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        declared = line.split("--", 1)[0].strip().removesuffix(",").strip()
        if not declared:
            continue
        name, kind = (*declared.split(None, 1), "")[:2]
        place = f"{where} line {number}"
        if name != name.lower():
            raise ConfigError(f"{place}: column {shown(name)}. Fix: use lower-case letters, digits and _")
        check_column(name, place)
        if name in found:
            raise ConfigError(f"{place}: column {name!r} is there twice. Fix: remove one")
        found[name] = _type(kind.strip().lower(), f"{place}: column {name!r}")
    if not found:
        raise ConfigError(f"{where}: no column. Fix: write one per line, as name TYPE")
    return found


def _type(kind: str, where: str) -> str:
    decimal = _DECIMAL.fullmatch(kind)
    if decimal and 1 <= int(decimal[1]) <= 38 and int(decimal[2]) <= int(decimal[1]):
        return f"decimal({decimal[1]},{decimal[2]})"
    if kind not in TYPES:
        raise ConfigError(
            f"{where}: type {shown(kind.upper()) if kind else 'missing'}. Fix: use one of "
            f"{', '.join(TYPES)}, decimal(p, s)"
        )
    return kind


_TRUNCATE = re.compile(r"truncate\(\s*([0-9]{1,9})\s*,\s*([^,()\s]*)\s*\)")


@dataclass(frozen=True)
class Partition:
    """A ``column``, or its values truncated to ``width``: first characters, or an integer rounded down."""

    column: str
    width: int | None = None

    def __str__(self) -> str:
        return self.column if self.width is None else f"truncate({self.width}, {self.column})"

    @property
    def field(self) -> str:
        """Iceberg's name of it; no column may have it."""
        return self.column if self.width is None else f"{self.column}_trunc"

    @property
    def sql(self) -> str:
        quoted = f"`{self.column}`"
        return quoted if self.width is None else f"truncate({self.width}, {quoted})"


def parse(text: str, where: str) -> Partition:
    """``column`` or ``truncate(<width>, column)``. Raises ConfigError naming ``where`` and value."""
    found = _TRUNCATE.fullmatch(text)
    if "(" in text and found is None:
        raise ConfigError(
            f"{where}: partition {shown(text)}. Fix: write a column, or truncate(<width>, column)"
        )
    column = found[2] if found else text
    if not IDENTIFIER.fullmatch(column):
        raise ConfigError(f"{where}: partition_by: column {shown(column)}. {IDENTIFIER_FIX}")
    if found and int(found[1]) < 1:
        raise ConfigError(f"{where}: partition {text!r}: its width is {found[1]}. Fix: write at least 1")
    return Partition(column, int(found[1]) if found else None)


def parse_all(texts: Iterable[str], where: str) -> list[Partition]:
    """Raises ConfigError, also for a column that is named twice."""
    found = [parse(text, where) for text in texts]
    columns = [partition.column for partition in found]
    for column in columns:
        if columns.count(column) > 1:
            raise ConfigError(f"{where}: partition_by names column {column!r} twice. Fix: name it once")
    return found


def spelled(column: str, transform: str) -> str:
    """An Iceberg transform (``truncate[1]``) as :class:`Partition` is written, and one that a stream
    cannot declare (``day(at)``), for messages."""
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
# Iceberg's and Spark's.
MAX_PRECISION = 38
_NESTED = {"map": "map<", "array": "list<", "record": "struct<"}


def avro_iceberg_type(avro: Any) -> str:
    """The Iceberg type; of a nested type its beginning (``map<``), of a union with null the other branch's.
    Raises ValueError for another type."""
    if isinstance(avro, list):
        branches = [branch for branch in avro if branch != "null"]
        if len(branches) == 1:
            return avro_iceberg_type(branches[0])
    elif isinstance(avro, Mapping):
        if avro.get("logicalType") == "decimal":
            return _decimal(avro["precision"], avro.get("scale", 0))
        logical = _TYPES.get(str(avro.get("logicalType")))
        if logical:
            return logical
        return _NESTED.get(avro["type"]) or avro_iceberg_type(avro["type"])
    elif avro in _TYPES:
        return _TYPES[avro]
    raise ValueError(
        f"Avro type {shown(avro)} has no Iceberg type here. Fix: use a primitive, a map, an array or a record"
    )


def _decimal(precision: Any, scale: Any) -> str:
    is_whole = type(precision) is int and type(scale) is int
    if not (is_whole and 0 <= scale <= precision and 1 <= precision <= MAX_PRECISION):
        raise ValueError(
            f"decimal of precision {shown(precision)} and scale {shown(scale)}. Fix: write a precision of at "
            f"most {MAX_PRECISION}, and a scale of at most the precision"
        )
    return f"decimal({precision}, {scale})"


def ddl_iceberg_type(spark: str) -> str:
    """Raises ValueError for an unknown type."""
    decimal = _DECIMAL.fullmatch(spark)
    if decimal:
        return f"decimal({decimal[1]}, {decimal[2]})"
    if spark not in _SPARK_TO_ICEBERG:
        raise ValueError(
            f"Spark type {spark!r} has no Iceberg type here. Fix: use one of {', '.join(_SPARK_TO_ICEBERG)}"
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
# Iceberg's schema evolution may have widened a column without loss.
_WIDER = {"int": "long", "float": "double"}


def schema_problems(spec: StreamSpec, present: Mapping[str, str]) -> list[str]:
    """A message per column that is missing or has another type. ``present``: the table's Iceberg types.

    Raises ConfigError for a wrong declaration.
    """
    return differences(spec.table, declared_types(spec), present)


def declared_types(spec: StreamSpec) -> dict[str, str]:
    """Column -> Iceberg type, as the schema file declares. Raises ConfigError, also for a name that a later
    step cannot carry."""
    return _declared_types(spec, declared_text(spec.schema_file))


def _declared_types(spec: StreamSpec, text: str) -> dict[str, str]:
    where = f"{spec.name}/{spec.schema}"
    if not spec.is_avro:
        return {name: ddl_iceberg_type(kind) for name, kind in parse_ddl(text, where).items()}
    try:
        schema = json.loads(text)
        check_avro(schema, where)
        return {field["name"]: _column_type(field, where) for field in schema["fields"]}
    except ConfigError:
        raise
    # RecursionError: nested too deeply.
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(f"{where}: {shown(error)}. Fix: correct the schema file") from error


def _column_type(field: Mapping[str, Any], where: str) -> str:
    try:
        return avro_iceberg_type(field["type"])
    except ValueError as error:
        raise ConfigError(f"{where}: column {shown(field['name'])}: {error}") from error


def check(spec: StreamSpec, file: Path) -> None:
    """The schema ``file``, and what the declaration says of its columns. Raises ConfigError."""
    text, where = declared_text(file), f"{spec.name}/stream.toml"
    types = _declared_types(spec, text)
    named = {
        **{f"partition_by {str(one)!r}": one.column for one in spec.partitions},
        **({"feed event_id": spec.feed.event_id} if spec.feed else {}),
    }
    for key, column in named.items():
        if column not in types:
            raise ConfigError(
                f"{where}: {key}: {column!r} is no column of {spec.schema}. Fix: name one of its columns"
            )
    for partition in spec.partitions:
        if partition.width and partition.field in map(str.lower, types):
            raise ConfigError(
                f"{where}: partition_by {str(partition)!r}: Iceberg names its field {partition.field!r}, as "
                f"a column of {spec.schema} is. Fix: rename the column"
            )
    rest = spec.csv.extra_columns
    if rest and types.get(rest) != "map<":
        raise ConfigError(
            f"{where}: csv extra_columns {shown(rest)} is no map of {spec.schema}. Fix: name a map of strings"
        )
    if spec.queries and spec.is_avro:
        raise ConfigError(
            f"{where}: queries need a schema in DDL, and it has {spec.schema}. Fix: write its columns in a "
            ".ddl file"
        )
    for name, query in spec.queries.items():
        result_types(name, query, parse_ddl(text, f"{spec.name}/{spec.schema}"), where)


def has_closed_dates(spec: StreamSpec) -> bool:
    """Whether the first partition column is a DATE, whose files a past date no longer gets."""
    types = declared_types(spec) if spec.partitions else {}
    return any(first.width is None and types.get(first.column) == "date" for first in spec.partitions[:1])


def differences(table: str, expected: Mapping[str, str], present: Mapping[str, str]) -> list[str]:
    """Compare ``expected`` columns and OFFSET_COLUMNS; an older schema may have had others."""
    problems = []
    for name, kind in {**expected, **OFFSET_COLUMNS}.items():
        found = present.get(name)
        if found is None:
            problems.append(
                f"schema: table {table} has no column {name} ({kind}); restart the stream's consumer"
            )
        elif not (found in (kind, _WIDER.get(kind)) or (kind.endswith("<") and found.startswith(kind))):
            problems.append(f"schema: column {name} of table {table} is {found}, the stream declares {kind}")
    return problems
