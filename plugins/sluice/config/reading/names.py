"""Names that a later step cannot carry: of columns, topics, tables and objects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from sluice.config.reading.toml import IDENTIFIER, IDENTIFIER_FIX, ConfigError
from sluice.config.reading.values import shown

# Prefixes of Sluice's own columns: in tables, and in Spark's frames beside a table's columns.
OURS = ("_kafka_", "_source_", "_sluice_")
# Iceberg's own columns (MetadataColumns): a table with one can be written, and then neither rewritten nor
# changed. tests/spark/test_names.py compares them with Iceberg:
# https://github.com/apache/iceberg/blob/apache-iceberg-1.10.2/core/src/main/java/org/apache/iceberg/MetadataColumns.java
ICEBERG = frozenset(
    {
        *("_file", "_pos", "_deleted", "_spec_id", "_partition"),
        *("_change_type", "_change_ordinal", "_commit_snapshot_id"),
        *("_row_id", "_last_updated_sequence_number"),
    }
)
# Columns that every table of PostgreSQL has.
POSTGRES = frozenset({"ctid", "cmax", "cmin", "tableoid", "xmax", "xmin"})

# Avro's names (Avro specification, "Names"), of which later steps quote none wrongly.
COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_COLUMN_FIX = "Fix: use at most 128 letters, digits and _, no digit first"
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
# A character of an object's key, for Python and a browser: no control character and none that ends a line, as
# messages and logs name the key. Others come as file names have them: blanks of any kind, joiners, marks.
KEY_CHARACTER = r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]"
# Half a character of JSON is none of UTF-8, which a key is.
_KEY = re.compile(rf"((?![\ud800-\udfff]){KEY_CHARACTER})*")


def column_problem(name: str) -> str:
    """Why no column of a table may have a name; empty if one may."""
    if not COLUMN.fullmatch(name):
        return "a column has at most 128 letters of ASCII, digits and _"
    if name.lower().startswith(OURS):
        return f"names in {', '.join(OURS)} are Sluice's own"
    return "the name is Iceberg's own" if name.lower() in ICEBERG else ""


def check_column(name: Any, where: str) -> None:
    """Raises ConfigError for a name that no column of a table may have."""
    if not isinstance(name, str) or not COLUMN.fullmatch(name):
        raise ConfigError(f"{where}: column {shown(name)} cannot be a column. {_COLUMN_FIX}")
    if name.lower().startswith(OURS):
        raise ConfigError(
            f"{where}: column {name!r}: names in {', '.join(OURS)} are Sluice's own. Fix: rename it"
        )
    if name.lower() in ICEBERG:
        raise ConfigError(f"{where}: column {name!r}: the name is Iceberg's own. Fix: rename it")


def check_columns(names: Iterable[Any], where: str) -> None:
    """The columns of a table, or the fields of a nested record. Raises ConfigError.

    Also for names that differ in case only: Spark resolves names without it.
    """
    seen: dict[str, str] = {}
    for name in names:
        check_column(name, where)
        if (other := seen.get(name.lower())) is not None:
            same = "is there twice" if other == name else f"and {other!r} differ in case only"
            raise ConfigError(f"{where}: column {name!r} {same}. Fix: rename one")
        seen[name.lower()] = name


def check_avro(schema: Any, where: str) -> None:
    """Every record of an Avro schema, at any depth. Raises ConfigError."""
    if isinstance(schema, list):
        for branch in schema:
            check_avro(branch, where)
    elif isinstance(schema, Mapping):
        fields = schema.get("fields", [])
        check_columns([field["name"] for field in fields], where)
        for field in fields:
            check_avro(field["type"], f"{where}: {field['name']}")
        for key in ("type", "items", "values"):
            if not isinstance(schema.get(key), str):
                check_avro(schema.get(key), where)


def check_topic(name: str, where: str) -> None:
    """Raises ConfigError for a name that Kafka refuses or uses itself."""
    if not _TOPIC.fullmatch(name) or name in (".", "..") or name.startswith("__"):
        raise ConfigError(
            f"{where}: topic {shown(name)}: Kafka takes no such name. Fix: use at most 249 letters, digits, "
            "., _ and -, and not __ in front"
        )


def check_table(name: str, where: str) -> None:
    """Raises ConfigError unless it is a table of the lake."""
    parts = name.split(".")
    if len(parts) != 2 or not all(map(IDENTIFIER.fullmatch, parts)):
        raise ConfigError(f"{where}: table {shown(name)}: write it as namespace.table. {IDENTIFIER_FIX}")


def check_database_names(table: str, columns: Iterable[str], where: str) -> None:
    """Check the names of a table in a database. Raises ConfigError."""
    if table.startswith(("pg_", "sluice_")):
        raise ConfigError(
            f"{where}: table {table!r}: pg_ and sluice_ are PostgreSQL's and Sluice's prefixes. Fix: rename "
            "it"
        )
    for column in columns:
        if column in POSTGRES:
            raise ConfigError(f"{where}: column {column!r}: the name is PostgreSQL's own. Fix: rename it")


def is_key(text: str) -> bool:
    """Whether an object's key, or the prefix of one, can be named, and read as no other one."""
    return bool(_KEY.fullmatch(text)) and not {".", ".."} & set(text.split("/"))


def check_distinct(names: Iterable[str], where: str) -> None:
    """Raises ConfigError for a name that is there twice."""
    seen = set()
    for name in names:
        if name in seen:
            raise ConfigError(f"{where}: {name} is used twice. Fix: use another for one of them")
        seen.add(name)
