"""What ``[records]`` must hold: known words, and columns that a table can have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sluice.config.reading.names import check_columns
from sluice.config.reading.toml import ConfigError
from sluice.config.reading.values import shown
from sluice.config.sections.records.declaration import (
    Format,
    NewFields,
    OnIncompatible,
    Records,
    RecursiveFields,
    Tombstones,
)

_CHOICES: Mapping[str, Iterable[str]] = {
    "format": [*Format],
    "key": ["", *Format],
    "tombstones": [*Tombstones],
    "new_fields": [*NewFields],
    "on_incompatible": [*OnIncompatible],
    "recursive_fields": [*RecursiveFields],
}

# Formats of which a schema of a registry says what bytes are.
_REGISTERED = (Format.AVRO, Format.PROTOBUF)


def check(records: Records, schema: str, where: str) -> None:
    """The section alone, with the stream's ``schema``. Raises ConfigError."""
    for key, choices in _CHOICES.items():
        if (value := getattr(records, key)) not in choices:
            allowed = ", ".join(f'"{one}"' for one in choices)
            raise ConfigError(f"{where}: [records] {key} {shown(value)}. Fix: use one of {allowed}")
    if records.has_schema and not schema:
        raise ConfigError(
            f"{where}: [records] format {records.format!r} without schema: its columns are not known. Fix: "
            'add schema = "schema.avsc", "schema.ddl" or "schema.proto", a file of the stream\'s folder'
        )
    if schema and not records.has_schema:
        raise ConfigError(
            f"{where}: schema {shown(schema)} with [records] format {records.format!r}, whose only column is "
            f"{records.value_column!r}. Fix: remove schema, or use format avro, json or protobuf"
        )
    if records.format == Format.JSON and schema.endswith(".avsc"):
        raise ConfigError(
            f"{where}: [records] format 'json' with schema {shown(schema)}. Fix: declare the columns in a "
            "schema.ddl"
        )
    if (records.format == Format.PROTOBUF) != schema.endswith(".proto"):
        raise ConfigError(
            f"{where}: [records] format {records.format!r} with schema {shown(schema)}. Fix: declare the "
            "columns of protobuf in a schema.proto, and those of other formats in none"
        )
    for key, is_set in {"message": bool(records.message), "json_fields": bool(records.json_fields)}.items():
        if is_set and records.format != Format.PROTOBUF:
            raise ConfigError(
                f"{where}: [records] {key} with format {records.format!r}, which has no messages. Fix: "
                "remove it"
            )
    if records.registry and records.key not in _REGISTERED and not records.has_schema:
        raise ConfigError(
            f"{where}: [records] registry with format {records.format!r}: its values have no schema. Fix: "
            "remove registry"
        )
    _check_subjects(records, where)
    if records.key in _REGISTERED and not records.registry:
        raise ConfigError(
            f"{where}: [records] key {records.key!r} without registry: a key's schema is one of "
            'the registry\'s. Fix: set registry = true, or use key = "bytes"'
        )
    may_recur = records.format == Format.PROTOBUF or (records.format == Format.AVRO and records.registry)
    if records.has_recursive_texts and not may_recur:
        raise ConfigError(
            f"{where}: [records] recursive_fields {records.recursive_fields!r} with format "
            f"{records.format!r} and registry {str(records.registry).lower()}: only Avro's records of a "
            "registry, and Protobuf's, have such fields. Fix: remove recursive_fields"
        )
    named = {"new_fields": records.follows, "on_incompatible": records.stops}
    for key in (key for key, is_set in named.items() if is_set):
        if records.format == Format.JSON and records.registry:
            raise ConfigError(
                f"{where}: [records] {key} {getattr(records, key)!r} with format 'json': a JSON Schema is "
                f"not evaluated, so a table cannot follow its versions. Fix: remove {key}; members without a "
                "column are kept in unknown_fields, until a column in schema.ddl has them"
            )
        if records.format not in _REGISTERED or not (records.registry or _follows_files(records)):
            raise ConfigError(
                f"{where}: [records] {key} {getattr(records, key)!r} with format {records.format!r} and "
                f"registry {str(records.registry).lower()}: only Avro's and Protobuf's records that name "
                f"their schemas have some that move. Fix: remove {key}, or use format avro or protobuf with "
                'registry = true, or avro with new_fields = "column"'
            )
    _check_names(records, where)


def _check_subjects(records: Records, where: str) -> None:
    if not records.subjects:
        return
    if records.format not in _REGISTERED or not records.registry:
        raise ConfigError(
            f"{where}: [records] subjects with format {records.format!r} and registry "
            f"{str(records.registry).lower()}: only Avro's and Protobuf's records of a registry have some. "
            "Fix: remove subjects"
        )
    # Steps of a path are no names.
    wrong = [one for one in records.subjects if not one.strip() or one in (".", "..")]
    if wrong or len({*records.subjects}) < len(records.subjects):
        raise ConfigError(
            f"{where}: [records] subjects {shown(records.subjects)}: one has no name, or is there twice. "
            "Fix: name each subject once"
        )


def _follows_files(records: Records) -> bool:
    return records.format == Format.AVRO and records.follows


def _check_names(records: Records, where: str) -> None:
    named = {
        "key_column": records.key_column if records.key else "",
        "value_column": "" if records.has_schema else records.value_column,
        "headers": records.headers,
        "unknown_fields": records.unknown_column,
    }
    needed = {"key_column": bool(records.key), "value_column": not records.has_schema}
    for key, is_needed in needed.items():
        if is_needed and not named[key]:
            raise ConfigError(f"{where}: [records] {key} is empty. Fix: name the column")
    check_columns(filter(None, named.values()), f"{where}: [records]")


def check_added(records: Records, columns: Iterable[str], of: str, where: str) -> None:
    """That none of the section's columns is one of ``columns``, which are those of the file ``of``. Raises
    ConfigError."""
    known = {name.lower(): name for name in columns}
    keys = {records.key_column: "key_column", records.headers: "headers"}
    keys[records.unknown_column] = "unknown_fields"
    for name in records.added_columns:
        if (other := known.get(name.lower())) is not None:
            raise ConfigError(
                f"{where}: [records] {keys[name]} {name!r}: {of} has the column {other!r}. Fix: set "
                f"{keys[name]} to another name"
            )
