"""Values that readers cannot read, anywhere in a record: found by its type, in any stream.

One of them makes its whole column unreadable for DuckDB, pandas and Arrow's Python. So a record that has one
is rejected: with a text that is not UTF-8, or with a time or date beyond what Python's datetime holds, which
is less than DuckDB and pandas do. The first and the last day are left out of times with a zone: readers show
them in their own zone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

# By type: the first and the last that can be read, and the words of a reason.
_BOUNDS: dict[type[DataType], tuple[str, str, str]] = {
    DateType: ("0001-01-01", "9999-12-31", "a date beyond the years 1 to 9999"),
    TimestampNTZType: (
        "0001-01-01 00:00:00",
        "9999-12-31 23:59:59.999999",
        "a time beyond the years 1 to 9999",
    ),
    TimestampType: (
        "0001-01-02 00:00:00Z",
        "9999-12-30 23:59:59.999999Z",
        "a time beyond 0001-01-02 to 9999-12-30",
    ),
}
# No character of several bytes goes on behind it, so texts that are joined by it are valid if each of them
# is.
_BREAK = "\n"


@dataclass(frozen=True)
class _Values:
    """A value of a record, or an array of values (``is_many``), of a type that has some that cannot be read,
    or of one that has no expression without a lambda (``is_nested``: an array of arrays or maps)."""

    name: str
    column: Column
    kind: DataType
    is_many: bool
    is_nested: bool = False

    @property
    def is_wrong(self) -> Column:
        """Null if there is no value."""
        if self.is_nested:
            return F.exists(self.column, lambda one: _is_wrong(_found(one, self.kind, self.name)))
        if isinstance(self.kind, StringType):
            return ~F.is_valid_utf8(F.array_join(self.column, _BREAK) if self.is_many else self.column)
        first, last, _ = _BOUNDS[type(self.kind)]
        ends = (F.array_min(self.column), F.array_max(self.column)) if self.is_many else (self.column,) * 2
        return (ends[0] < F.lit(first).cast(self.kind)) | (ends[1] > F.lit(last).cast(self.kind))

    @property
    def words(self) -> Column:
        if self.is_nested:
            return F.lit(f"{self.name} has a text that is not UTF-8, or a time beyond the years 1 to 9999")
        if isinstance(self.kind, StringType):
            return F.lit(f"{self.name} is not UTF-8")
        words = f"{self.name} is {_BOUNDS[type(self.kind)][2]}"
        if self.is_many:
            return F.lit(words)
        return F.concat(F.lit(f"{words}: "), F.coalesce(self.column.cast("string"), F.lit("null")))


def is_readable_time(time: Column) -> Column:
    """Whether a timestamp with a zone is readable; false for null."""
    return F.coalesce(~_Values("", time, TimestampType(), is_many=False).is_wrong, F.lit(False))


def unreadable(record: Column, kind: StructType) -> tuple[Column, Column]:
    """Whether the record has a value that cannot be read, and the reason, which names the first one."""

    def why(one: Column) -> Column:
        return F.coalesce(*(F.when(v.is_wrong, v.words) for v in _found(one, kind, "")), F.lit(""))

    # A lambda, so that what is for a rejected record alone is interpreted, and no part of compiled code.
    return _is_wrong(_found(record, kind, "")), F.transform(F.array(record), why)[0]


def _is_wrong(found: Iterable[_Values]) -> Column:
    """Never null. All texts are checked at once: an expression for each would be more code than Java
    compiles."""
    texts, checks = list[Column](), list[Column]()
    for values in found:
        if isinstance(values.kind, StringType) and not values.is_nested:
            texts.append(values.column)
        else:
            checks.append(F.coalesce(values.is_wrong, F.lit(False)))
    if texts:
        checks.insert(0, ~F.is_valid_utf8(F.concat_ws(_BREAK, *texts)))
    return reduce(Column.__or__, checks, F.lit(False))


def _found(value: Column, kind: DataType, name: str) -> Iterator[_Values]:
    """``name``: the value's path in the record."""
    if isinstance(kind, StringType) or type(kind) in _BOUNDS:
        yield _Values(name, value, kind, is_many=False)
    elif isinstance(kind, StructType):
        for field in kind.fields:
            yield from _found(
                value[field.name], field.dataType, f"{name}.{field.name}" if name else field.name
            )
    elif isinstance(kind, ArrayType):
        yield from _elements(value, kind.elementType, f"an element of {name}")
    elif isinstance(kind, MapType):
        yield from _elements(F.map_keys(value), kind.keyType, f"a key of {name}")
        yield from _elements(F.map_values(value), kind.valueType, f"a value of {name}")


def _elements(values: Column, kind: DataType, name: str) -> Iterator[_Values]:
    if isinstance(kind, StringType) or type(kind) in _BOUNDS:
        yield _Values(name, values, kind, is_many=True)
    elif isinstance(kind, StructType):
        # In an array of structs, a field is the array of the structs' values.
        for field in kind.fields:
            yield from _elements(values[field.name], field.dataType, f"{field.name} of {name}")
    elif isinstance(kind, ArrayType | MapType) and any(_found(values, kind, name)):
        yield _Values(name, values, kind, is_many=True, is_nested=True)
