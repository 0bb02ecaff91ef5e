"""How columns and partitions are written: DDL, Avro and Iceberg types, transforms."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sluice.config.reading.names import check_column
from sluice.config.reading.toml import IDENTIFIER, IDENTIFIER_FIX, ConfigError
from sluice.config.reading.values import shown
from sluice.core.decoding.avro.names import full_name

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


def parse_ddl(text: str, where: str = "schema.ddl", is_of_others: bool = False) -> dict[str, str]:
    """Column -> Spark type in lower case, in the declared order. ``is_of_others``: names are those of other
    people's records, in which capitals count.

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
        if name != name.lower() and not is_of_others:
            raise ConfigError(f"{place}: column {shown(name)}. Fix: use lower-case letters, digits and _")
        check_column(name, place)
        if name in found:
            raise ConfigError(f"{place}: column {name!r} is there twice. Fix: remove one")
        if name.lower() in map(str.lower, found):
            raise ConfigError(f"{place}: column {name!r} and one above differ in case only. Fix: remove one")
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
    "fixed": "binary",
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
# Unions that are read as one type of numbers; others of several types are a struct with a member for each.
_WIDENED: dict[tuple[str, ...], str] = {("int", "long"): "long", ("double", "float"): "double"}
_NESTED = {"map": "map<", "array": "list<", "record": "struct<"}


Named = Mapping[str, Mapping[str, Any]]


def avro_iceberg_type(avro: Any, named: Named = MappingProxyType({}), namespace: str = "") -> str:
    """The Iceberg type; of a nested type its beginning (``map<``), of a union with null the other branch's,
    of several others a struct's, or the wider number's. ``named``: full name -> definition, for a type that
    is used by its name in ``namespace``. Raises ValueError for another type."""
    if isinstance(avro, list):
        branches = [branch for branch in avro if branch != "null"]
        kinds = [avro_iceberg_type(branch, named, namespace) for branch in branches]
        if len(kinds) == 1:
            return kinds[0]
        # Spark's, of which the decoders' types are the same.
        if kinds:
            return _WIDENED.get(tuple(sorted(map(str, branches))), "struct<")
    elif isinstance(avro, Mapping):
        if avro.get("logicalType") == "decimal":
            return _decimal(avro["precision"], avro.get("scale", 0))
        logical = _TYPES.get(str(avro.get("logicalType")))
        if logical:
            return logical
        if isinstance(avro["type"], str) and avro["type"] in _NESTED:
            return _NESTED[avro["type"]]
        return avro_iceberg_type(avro["type"], named, namespace)
    elif isinstance(avro, str) and avro in _TYPES:
        return _TYPES[avro]
    elif isinstance(avro, str) and (
        found := named.get(full_name({"name": avro}, namespace)) or named.get(avro)
    ):
        return avro_iceberg_type(found)
    raise ValueError(
        f"Avro type {shown(avro)} has no Iceberg type here. Fix: use a primitive, a fixed, a map, an array "
        "or a record"
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


# Spark's types in Avro.
_AVRO = {
    "bigint": "long",
    "binary": "bytes",
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
}


def ddl_avro(columns: Mapping[str, str], name: str) -> dict[str, Any]:
    """The Avro schema of records with these columns (of :func:`parse_ddl`), each of which may be null."""
    fields = [
        {"name": column, "type": ["null", _avro_type(kind)], "default": None}
        for column, kind in columns.items()
    ]
    return {"type": "record", "name": name, "namespace": "sluice", "fields": fields}


def _avro_type(kind: str) -> Any:
    if decimal := _DECIMAL.fullmatch(kind):
        return {
            "type": "bytes",
            "logicalType": "decimal",
            "precision": int(decimal[1]),
            "scale": int(decimal[2]),
        }
    return _AVRO.get(kind, kind)
