"""The types of columns that are declared in Spark's DDL, as Iceberg writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping

# Iceberg's documentation, "Spark type to Iceberg type".
_TYPES = {
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
    if spark not in _TYPES:
        raise ValueError(f"Spark type {spark!r} has no Iceberg type here; use one of {', '.join(_TYPES)}")
    return _TYPES[spark]
