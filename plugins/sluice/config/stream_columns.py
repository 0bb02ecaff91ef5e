"""A stream's columns: as its schema file declares them, and whether its table has them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sluice.config import csv_reading, protobuf_messages
from sluice.config.avro_texts import table_avro
from sluice.config.reading.files import declared_text
from sluice.config.reading.names import check_avro
from sluice.config.reading.toml import ConfigError
from sluice.config.reading.values import shown
from sluice.config.schema import Named, avro_iceberg_type, ddl_iceberg_type, parse_ddl
from sluice.config.sections.query import result_types
from sluice.config.sections.records.checks import check_added
from sluice.config.sections.records.declaration import HEADERS_TYPE
from sluice.config.stream import SourceType, StreamSpec
from sluice.core.decoding.avro.names import definitions, full_name, namespace_of

OFFSET_COLUMNS = {
    "_kafka_partition": "int",
    "_kafka_offset": "long",
    "_kafka_timestamp": "timestamptz",
    "_source_id": "string",
    "_source_row": "long",
    "_source_base_offset": "long",
}
# Iceberg's schema evolution may have widened a column without loss; so does a table that follows schemas.
_WIDER = {"int": "long", "float": "double"}
_DECIMAL = re.compile(r"decimal\((\d+), (\d+)\)")


def schema_problems(spec: StreamSpec, present: Mapping[str, str]) -> list[str]:
    """A message per column that is missing or has another type. ``present``: the table's Iceberg types.

    Raises ConfigError for a wrong declaration.
    """
    return differences(spec.table, declared_types(spec), present)


def declared_types(spec: StreamSpec) -> dict[str, str]:
    """Column -> Iceberg type, as the schema file declares. Raises ConfigError, also for a name that a later
    step cannot carry."""
    return _declared_types(spec, _text(spec, spec.schema_file), spec.schema_file)


def _text(spec: StreamSpec, file: Path) -> str:
    """The schema file's; empty without one: then the section [records] declares the columns."""
    return declared_text(file) if spec.schema else ""


def _declared_types(spec: StreamSpec, text: str, file: Path) -> dict[str, str]:
    where = f"{spec.name}/{spec.schema}"
    if not spec.records:
        return _value_types(spec, text, file, where)
    if not spec.records.has_schema:
        found = {name: ddl_iceberg_type(kind) for name, kind in spec.records.value_columns.items()}
    else:
        found = _value_types(spec, text, file, where)
        check_added(spec.records, found, spec.schema, f"{spec.name}/stream.toml")
    return found | {name: _added_type(kind) for name, kind in spec.records.added_columns.items()}


def _added_type(kind: str) -> str:
    return "list<" if kind == HEADERS_TYPE else ddl_iceberg_type(kind)


def _value_types(spec: StreamSpec, text: str, file: Path, where: str) -> dict[str, str]:
    if spec.is_ddl:
        columns = parse_ddl(text, where, is_of_others=spec.records is not None)
        return {name: ddl_iceberg_type(kind) for name, kind in columns.items()}
    if spec.is_protobuf:
        return protobuf_messages.declared_types(spec, file, where)
    try:
        schema = json.loads(table_avro(spec, text, where))
        check_avro(schema, where)
        names = dict(definitions(schema)), namespace_of(full_name(schema, ""))
        return {field["name"]: _column_type(field, names, where) for field in schema["fields"]}
    except ConfigError:
        raise
    # RecursionError: nested too deeply.
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(f"{where}: {shown(error)}. Fix: correct the schema file") from error


def _column_type(field: Mapping[str, Any], names: tuple[Named, str], where: str) -> str:
    try:
        return avro_iceberg_type(field["type"], *names)
    except ValueError as error:
        raise ConfigError(f"{where}: column {shown(field['name'])}: {error}") from error


def check(spec: StreamSpec, file: Path) -> None:
    """The schema ``file``, and what the declaration says of its columns. Raises ConfigError."""
    text, where = _text(spec, file), f"{spec.name}/stream.toml"
    types = _declared_types(spec, text, file)
    named = {
        **{f"partition_by {str(one)!r}": one.column for one in spec.partitions},
        **({"feed event_id": spec.feed.event_id} if spec.feed else {}),
    }
    for key, column in named.items():
        if column not in types:
            raise ConfigError(
                f"{where}: {key}: {column!r} is no column of {spec.schema or 'the table'}. Fix: name one of "
                "its columns"
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
    if spec.queries and not spec.is_ddl:
        raise ConfigError(
            f"{where}: queries need a schema in DDL, and it has {spec.schema}. Fix: write its columns in a "
            ".ddl file"
        )
    if spec.source is SourceType.CSV:
        csv_reading.check(spec, file, where)
    for name, query in spec.queries.items():
        result_types(name, query, _query_columns(spec, text), where)


def _query_columns(spec: StreamSpec, text: str) -> dict[str, str]:
    if not spec.records:
        return parse_ddl(text, f"{spec.name}/{spec.schema}")
    where = f"{spec.name}/{spec.schema}"
    own = parse_ddl(text, where, is_of_others=True) if text else spec.records.value_columns
    return own | spec.records.query_columns


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
        elif not (_is_wider(found, kind) or (kind.endswith("<") and found.startswith(kind))):
            problems.append(f"schema: column {name} of table {table} is {found}, the stream declares {kind}")
    return problems


def _is_wider(found: str, kind: str) -> bool:
    """Whether a type has all values of another one, which it may be itself."""
    mine, other = _DECIMAL.fullmatch(found), _DECIMAL.fullmatch(kind)
    if mine and other:
        return mine[2] == other[2] and int(mine[1]) >= int(other[1])
    return found in (kind, _WIDER.get(kind))
