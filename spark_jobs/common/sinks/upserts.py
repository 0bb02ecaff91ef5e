"""Many rows by one statement: inserted, or put in place of those with the same key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql

from sluice.model.spec.connection import POSTGRESQL

# Rows, each with a value per column.
Upsert = Callable[[sa.Connection, Sequence[tuple[Any, ...]]], None]
# Spark's DDL type -> the element of an array; whole numbers are BIGINT.
_TYPES: Mapping[str, sa.types.TypeEngine[Any]] = {
    "string": sa.Text(),
    "date": sa.Date(),
    "boolean": sa.Boolean(),
    "timestamp": sa.DateTime(timezone=True),
    "timestamp_ntz": sa.DateTime(timezone=True),
}


def upsert(kind: str, table: str, keys: Sequence[str], columns: Mapping[str, str]) -> Upsert:
    """What writes rows into ``table`` of a database of this kind.

    ``columns``: name -> Spark's DDL type, in the order of a row's values; ``keys`` are its primary key.
    """
    target = sa.table(table, *(sa.column(name) for name in columns))
    others = [name for name in columns if name not in keys]
    make = _postgresql if kind == POSTGRESQL else _mysql
    return make(target, columns, list(keys), others)


def _postgresql(
    target: sa.TableClause, columns: Mapping[str, str], keys: list[str], others: list[str]
) -> Upsert:
    """One array per column. Row by row the driver writes a sixth of the rows a second; SQLAlchemy's lists of
    values cost ten times the processor."""
    arrays = {
        name: postgresql.ARRAY(_TYPES.get(declared, sa.BigInteger())) for name, declared in columns.items()
    }
    given = (
        sa.func.unnest(*(sa.cast(sa.bindparam(name, type_=array), array) for name, array in arrays.items()))
        .table_valued(*columns, name="given")
        .render_derived()
    )
    selected = sa.select(*(given.c[name] for name in columns))
    insert = postgresql.insert(target).from_select(list(columns), selected)
    statement = insert.on_conflict_do_update(
        index_elements=keys, set_={name: insert.excluded[name] for name in others}
    )

    def write(connection: sa.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        values = (list(column) for column in zip(*rows, strict=True))
        connection.execute(statement, dict(zip(columns, values, strict=True)))

    return write


def _mysql(target: sa.TableClause, columns: Mapping[str, str], keys: list[str], others: list[str]) -> Upsert:
    """The driver makes statements of up to 1 MB of many rows."""
    insert = mysql.insert(target)
    statement = insert.on_duplicate_key_update({name: insert.inserted[name] for name in others})

    def write(connection: sa.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
        connection.execute(statement, [dict(zip(columns, row, strict=True)) for row in rows])

    return write
