"""The columns of a flat schema: what Arrow makes of them, and how a reason calls what is expected."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
# Spark's type -> Arrow's, and the words of a reason.
_TYPES = {
    "boolean": (pa.bool_(), "true or false"),
    "int": (pa.int32(), "a whole number of 32 bits"),
    "bigint": (pa.int64(), "a whole number of 64 bits"),
    "float": (pa.float32(), "a number within the range of a float"),
    "double": (pa.float64(), "a number within the range of a double"),
    "string": (pa.utf8(), "a text"),
    "binary": (pa.binary(), "a text in base64"),
    "date": (pa.date32(), "a date (YYYY-MM-DD)"),
    "timestamp": (
        pa.timestamp("us", tz="UTC"),
        "a date and time with an offset from UTC, to microseconds (YYYY-MM-DDThh:mm:ssZ)",
    ),
    "timestamp_ntz": (
        pa.timestamp("us"),
        "a date and time without an offset, to microseconds (YYYY-MM-DDThh:mm:ss)",
    ),
}


@dataclass(frozen=True)
class Column:
    """A column by its ``name``. ``kind``: Spark's type without parameters. ``type``: Arrow's. ``words``: what
    is expected, for a reason. ``read``: the type as which Arrow's JSON parser has it. ``read_again``: a wider
    one, slower to cast, of which the parser refuses fewer values."""

    name: str
    kind: str
    type: pa.DataType
    words: str
    read: pa.DataType
    read_again: pa.DataType


def columns_of(types: Mapping[str, str]) -> tuple[Column, ...]:
    """Columns by name and Spark type, as ``parse_ddl`` gives them. Raises ValueError for another type."""
    return tuple(_column(name, kind) for name, kind in types.items())


def _column(name: str, kind: str) -> Column:
    decimal = _DECIMAL.fullmatch(kind)
    if decimal:
        precision, scale = int(decimal[1]), int(decimal[2])
        words = f"a number that decimal({precision}, {scale}) has exactly"
        # Arrow checks a literal's digits before it scales them, and the product may wrap around: 38 digits
        # with 38 more fit into 256 bits. The cast to `type` checks the result.
        read, again = pa.decimal256(38, scale), pa.decimal256(38, 38)
        return Column(name, "decimal", pa.decimal128(precision, scale), words, read, again)
    if kind not in _TYPES:
        raise ValueError(
            f"column {name!r}: Spark type {kind!r} is not one of {', '.join(_TYPES)}, decimal(p,s)"
        )
    arrow, words = _TYPES[kind]
    is_text = kind in ("binary", "date", "timestamp", "timestamp_ntz")
    read = pa.utf8() if is_text else arrow
    return Column(name, kind, arrow, words, read, read)
