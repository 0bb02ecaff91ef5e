"""``[records]`` of a ``stream.toml``: how the records of a topic that others fill become rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated


class Format(StrEnum):
    """How values are encoded, and keys."""

    AVRO = "avro"
    JSON = "json"
    PROTOBUF = "protobuf"
    TEXT = "text"
    BYTES = "bytes"


class Tombstones(StrEnum):
    """What a record without a value becomes."""

    ROW = "row"
    SKIP = "skip"
    REJECT = "reject"


class NewFields(StrEnum):
    """What a field becomes that the table does not have."""

    COLUMN = "column"
    UNKNOWN_FIELDS = "unknown_fields"


class RecursiveFields(StrEnum):
    """What a field becomes whose record, or message, is inside of another one of its own kind."""

    REFUSE = "refuse"
    JSON = "json"


class OnIncompatible(StrEnum):
    """What a schema leads to whose records the table cannot have."""

    QUARANTINE = "quarantine"
    STOP = "stop"


# As Spark has the column of headers; the quarantine's has the same type.
HEADERS_TYPE = "array<struct<key: string, value: binary>>"
# Formats of which each value is one column, without a schema.
_OF_ONE_COLUMN = {Format.TEXT: "string", Format.BYTES: "binary"}
# Keys of Avro, Protobuf and JSON are texts of JSON, whatever their fields are.
_KEY_TYPES: dict[str, str] = {
    "": "",
    Format.TEXT: "string",
    Format.JSON: "string",
    Format.AVRO: "string",
    Format.PROTOBUF: "string",
    Format.BYTES: "binary",
}


@dataclass(frozen=True)
class Records:
    """``format``: a Format; ``key``: one, or empty; ``tombstones``, ``new_fields``, ``on_incompatible``,
    ``recursive_fields``: of the enumerations."""

    format: Annotated[
        str,
        "[of values](topics-of-others.md#formats), of a topic that others fill: `avro`, `json` or "
        "`protobuf`, with the columns of `schema`; `text` (UTF-8) or `bytes`, each value in `value_column`",
    ]
    registry: Annotated[
        bool,
        "values of `avro`, `json` and `protobuf` begin with Confluent's wire format: a schema id of the "
        "platform file's registry",
    ] = False
    subjects: Annotated[
        list[str],
        "the subjects whose versions the records have, of `avro` and `protobuf` with `registry`, as "
        '`["orders-value"]` of a [mirrored topic](schema-changes.md#schemas-of-another-topic); empty: those '
        "of the topic itself",
    ] = field(default_factory=list)
    key: Annotated[
        str,
        "format of keys that are kept: `text`, `bytes`, `json`, `avro` and `protobuf` (with `registry`); "
        "empty: not kept",
    ] = ""
    key_column: Annotated[
        str,
        "the column of `key`: a text, or binary with `bytes`; of `json` as it was sent, of `avro` and "
        "`protobuf` as JSON",
    ] = "key"
    value_column: Annotated[str, "the column of `text` (a text) and `bytes` (binary)"] = "value"
    headers: Annotated[
        str,
        "the column of headers, an array of `key` (text) and `value` (binary) in their order; empty: not "
        "kept",
    ] = ""
    tombstones: Annotated[
        str,
        "records without a value: `row` (with null columns), `skip` (no row; the batch's account has their "
        "offsets) or `reject`",
    ] = "row"
    message: Annotated[
        str,
        "of `protobuf`: the full name of the message that values are, as `shop.Order`; empty: the first "
        "one of `schema`",
    ] = ""
    json_fields: Annotated[
        list[str],
        "of `protobuf`: paths of fields, as `item.tree`, that are kept as the text of JSON, whatever they "
        "have",
    ] = field(default_factory=list)
    recursive_fields: Annotated[
        str,
        "fields whose record, or message, is [inside of another one of its kind]"
        "(schema-changes.md#recursion), of `avro` with `registry` and of `protobuf`: `refuse`, or `json` "
        "(each of them is the text of JSON)",
    ] = "refuse"
    unknown_fields: Annotated[
        str,
        "the column of fields that `schema` does not have, as the text of a JSON object, null without any; "
        "of `avro`, `json` and `protobuf`. Empty: they are not kept",
    ] = "_unknown_fields"
    new_fields: Annotated[
        str,
        "what a [further version of the schema](schema-changes.md) adds, of `avro`, and of `protobuf` with "
        "`registry`: `column` (the table follows it) or `unknown_fields` (its columns stay as `schema` "
        "declares them)",
    ] = "unknown_fields"
    on_incompatible: Annotated[
        str,
        "records of a schema that [the table cannot follow](schema-changes.md#what-a-table-cannot-follow), "
        "of `avro` and `protobuf` with `registry`, and of `avro` with `new_fields` `column`: `quarantine`, "
        "or `stop`, which ends the consumer before their batch is published",
    ] = "quarantine"

    @property
    def follows(self) -> bool:
        """Whether the table's columns follow the schemas of its records."""
        return self.new_fields == NewFields.COLUMN

    @property
    def has_recursive_texts(self) -> bool:
        """Whether a field of a record that is inside of itself is a text of JSON."""
        return self.recursive_fields == RecursiveFields.JSON

    @property
    def stops(self) -> bool:
        """Whether a schema that the table cannot follow ends the consumer."""
        return self.on_incompatible == OnIncompatible.STOP

    @property
    def has_schema(self) -> bool:
        """Whether the stream's ``schema`` declares columns."""
        return self.format not in _OF_ONE_COLUMN

    @property
    def value_columns(self) -> dict[str, str]:
        """The columns of values that have no schema, with their types in Spark's DDL."""
        return {} if self.has_schema else {self.value_column: _OF_ONE_COLUMN[Format(self.format)]}

    @property
    def unknown_column(self) -> str:
        """The column of fields that the schema does not have; empty for none."""
        return self.unknown_fields if self.has_schema else ""

    @property
    def added_columns(self) -> dict[str, str]:
        """The columns beside those of values, with their types in Spark's DDL, in the table's order."""
        found = {
            self.key_column: _KEY_TYPES[self.key],
            self.headers: HEADERS_TYPE if self.headers else "",
            self.unknown_column: "string" if self.unknown_column else "",
        }
        return {name: kind for name, kind in found.items() if kind}

    @property
    def query_columns(self) -> dict[str, str]:
        """The added columns that a continuous query may have: of headers no sink has the type."""
        return {name: kind for name, kind in self.added_columns.items() if kind != HEADERS_TYPE}
