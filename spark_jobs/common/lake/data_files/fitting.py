"""Rows as the columns of a table."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sluice.core.error_codes import ErrorCode


class LosesColumns(RuntimeError):
    """Rows have columns that their table does not have (any more)."""

    code = ErrorCode.INCOMPATIBLE_SCHEMA

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(
            f"the table lacks {', '.join(names)}, which rows to be written have: it was altered or restored "
            "since the process started. Fix: restart the consumer, which adds the columns of its schema; add "
            "those of a quarantine as docs/stored-data.md lists them"
        )


def _check_fields(kind: pa.DataType, wanted: pa.DataType, path: str) -> None:
    """Arrow's cast finds a struct's fields by their names as they are spelled, and makes null of others."""
    if pa.types.is_struct(kind) and pa.types.is_struct(wanted):
        if lost := sorted({*kind.names} - {*wanted.names}):
            raise LosesColumns([f"{path}.{name}" for name in lost])
        for name in kind.names:
            _check_fields(kind.field(name).type, wanted.field(name).type, f"{path}.{name}")
    elif pa.types.is_list(kind) and pa.types.is_list(wanted):
        _check_fields(kind.value_type, wanted.value_type, path)
    elif pa.types.is_map(kind) and pa.types.is_map(wanted):
        _check_fields(kind.key_type, wanted.key_type, path)
        _check_fields(kind.item_type, wanted.item_type, path)


def fitted(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """``rows`` with exactly the columns of ``schema``, found by their names in any case, as Spark finds
    them; null where there is none. Raises LosesColumns if the schema lacks a column or a nested field."""
    places = {name.lower(): place for place, name in enumerate(rows.schema.names)}
    if lost := places.keys() - {field.name.lower() for field in schema}:
        raise LosesColumns(sorted(lost))
    columns = []
    for field in schema:
        place = places.get(field.name.lower())
        if place is not None:
            _check_fields(rows.schema.field(place).type, field.type, field.name)
        if place is None:
            columns.append(pa.nulls(rows.num_rows, field.type))
        else:
            column = rows.column(place)
            columns.append(column if column.type == field.type else column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)
