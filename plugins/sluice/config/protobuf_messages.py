"""The message of a stream's ``schema.proto`` that its table is made of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sluice.config.reading.files import declared_text
from sluice.config.reading.names import check_columns
from sluice.config.reading.toml import ConfigError
from sluice.config.stream import StreamSpec

if TYPE_CHECKING:
    from sluice.core.decoding.protobuf.decoder import TableMessage
    from sluice.core.decoding.protobuf.types import Type

# Kinds of fields -> Iceberg's types; of a nested one its beginning.
_ICEBERG = {
    "int": "int",
    "uint": "long",
    "long": "long",
    "ulong": "decimal(20, 0)",
    "float": "float",
    "double": "double",
    "bool": "boolean",
    "string": "string",
    "bytes": "binary",
    "enum": "string",
    "timestamp": "timestamptz",
    "duration": "decimal(21, 9)",
    "json": "string",
    "struct": "struct<",
    "list": "list<",
    "map": "map<",
}


def declared_types(spec: StreamSpec, file: Path, where: str) -> dict[str, str]:
    """Column -> Iceberg's type, as ``ddl_iceberg_type`` has them. Raises ConfigError, also for a name that no
    column can have."""
    row = of_table(spec, file).type
    check_names(row, where)
    return {field.name: _ICEBERG[field.type.kind] for field in row.fields}


def of_table(spec: StreamSpec, file: Path | None = None) -> TableMessage:
    """The message of the stream's schema, or of another ``file``; it imports files of the same folder. Raises
    ConfigError."""
    # Arrow and Google's library, which other streams' declarations do not need.
    from sluice.config.reading.protoc import compiled
    from sluice.core.decoding.protobuf.decoder import TableMessage
    from sluice.core.decoding.protobuf.schema import NotCompiled, ProtobufSchema, UnsupportedMessage

    assert spec.records is not None  # noqa: S101  (narrows the type)
    found = file or spec.schema_file
    files = {found.name: declared_text(found)}
    for path in sorted(found.parent.rglob("*.proto")):
        files.setdefault(path.relative_to(found.parent).as_posix(), declared_text(path))
    try:
        schema = ProtobufSchema(compiled(files, found.name), found.name)
        records = spec.records
        return TableMessage(
            schema,
            records.message,
            records.json_fields,
            recursive_as_text=records.has_recursive_texts,
            by_number=records.follows,
        )
    except NotCompiled as error:
        raise ConfigError(f"{spec.name}/{spec.schema}: {error}. Fix: correct the schema file") from error
    except UnsupportedMessage as error:
        fix = "" if "Fix:" in str(error) else ". Fix: correct the schema, or [records] in stream.toml"
        raise ConfigError(f"{spec.name}/{spec.schema}: {error}{fix}") from error


def check_names(kind: Type, where: str) -> None:
    """Every message that the columns have, at any depth. Raises ConfigError."""
    check_columns([field.name for field in kind.fields], where)
    for field in kind.fields:
        inner = field.type
        while inner.item is not None:
            inner = inner.item
        if inner.fields:
            check_names(inner, f"{where}: {field.name}")
