"""A change of a table's columns and properties, in one commit that says on which schema and refs it is."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException

from sluice.core.messages import quoted
from sluice.core.schema_versions.columns import PROPERTY as COLUMNS
from sluice.core.schema_versions.columns import Came, with_fields
from sluice.core.schema_versions.table_columns import iceberg_type

_REFUSED = "org.apache.iceberg.exceptions.ValidationException"
# Characters of a sentence of Iceberg's, beside which a reason has what to do.
_MAX_SENTENCE = 250


def with_columns(
    jvm: Any, table: Any, base: Any, columns: pa.Schema, properties: Mapping[str, str], came: Came
) -> Any:
    """Iceberg's metadata ``base``, the current one of ``table``, with these columns and properties, not
    committed.

    ``columns``: what the table is to have at least, found by name; others stay. New ones may be null, and
    types become wider; ``came``: when and for which schemas, which a property keeps. Raises Java's error for
    a type that Iceberg does not widen.
    """
    builder, changed = _changed(jvm, table, base, columns)
    new = range(base.lastColumnId() + 1, changed.highestFieldId() + 1)
    known = with_fields(base.properties().get(COLUMNS) or "", new, came)
    builder.setProperties(java_map(jvm, {**properties, COLUMNS: known}))
    return builder.build()


def refusal(jvm: Any, table: Any, base: Any, columns: pa.Schema) -> str:
    """What Iceberg says if it refuses these columns, in :func:`with_columns`; empty if it does not. Raises
    Java's errors that are not about columns."""
    try:
        _changed(jvm, table, base, columns)
    # As Iceberg refuses names, types and whatever else a table has of its columns.
    except IllegalArgumentException as error:
        return _sentence(str(error))
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() != _REFUSED:
            raise
        return _sentence(str(error.java_exception.getMessage()))
    return ""


def _sentence(text: str) -> str:
    return quoted(" ".join(text.split()), _MAX_SENTENCE)


def _changed(jvm: Any, table: Any, base: Any, columns: pa.Schema) -> tuple[Any, Any]:
    """A builder of ``base`` with these columns, and Iceberg's schema of all."""
    numbers = iter(range(1, 1 << 31))
    wanted = {"schema-id": 0, **iceberg_type(pa.struct(list(columns)), numbers)}
    schema = jvm.org.apache.iceberg.SchemaParser.fromJson(json.dumps(wanted))
    changed = table.updateSchema().unionByNameWith(schema).apply()
    builder = jvm.org.apache.iceberg.TableMetadata.buildFrom(base)
    # Not built: what that refuses, as a clock that was set back, is not about columns.
    builder.setCurrentSchema(changed, max(base.lastColumnId(), changed.highestFieldId()))
    return builder, changed


def remove_schemas(jvm: Any, builder: Any, base: Any, expired: Any, kept: Collection[int]) -> None:
    """Remove from ``builder`` the schemas of ``base`` that are of no snapshot but the ``expired`` ones: else
    every metadata file has each that the table ever followed.

    The current one stays; the first one, which says what the table began with; and ``kept``, of staged
    snapshots. ``expired``: ids in Java's set.
    """
    found = {int(one.schemaId()) for one in base.schemas()}
    if len(found) <= 2:
        return
    used = {one.schemaId() for one in base.snapshots() if not expired.contains(one.snapshotId())}
    unused = found - used - {*kept, int(base.currentSchemaId()), min(found)}
    if not unused:
        return
    # Public, and the builder's own method is not.
    jvm.org.apache.iceberg.MetadataUpdate.RemoveSchemas(java_set(jvm, unused)).applyTo(builder)


def java_map(jvm: Any, values: Mapping[str, str]) -> Any:
    found = jvm.java.util.HashMap()
    for name, value in values.items():
        found.put(name, value)
    return found


def java_set(jvm: Any, values: Iterable[int | str]) -> Any:
    found = jvm.java.util.HashSet()
    for value in values:
        found.add(value)
    return found
