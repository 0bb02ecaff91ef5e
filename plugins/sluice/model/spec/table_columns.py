"""Whether a table has the columns that its stream's schema and Sluice's coordinates call for."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sluice.model.spec import avro_columns, ddl_columns
from sluice.model.spec import columns as declared
from sluice.model.spec.stream import StreamSpec

COORDINATES = {
    "_kafka_partition": "int",
    "_kafka_offset": "long",
    "_kafka_timestamp": "timestamptz",
    "_source_id": "string",
    "_source_row": "long",
    "_source_base": "long",
}
# A table may have been widened (Iceberg specification, schema evolution); no value is lost by that.
_WIDER = {"int": "long", "float": "double"}


def schema_problems(spec: StreamSpec, present: Mapping[str, str]) -> list[str]:
    """One sentence for each column that the table lacks or has with another type. ``present``: its columns,
    as Iceberg writes their types. Raises ConfigError or ValueError where the declaration itself is wrong."""
    text = spec.schema_file.read_text()
    if spec.is_avro:
        wanted = avro_columns.avro_iceberg_columns(json.loads(text))
    else:
        wanted = ddl_columns.ddl_iceberg_columns(declared.parse_ddl(text, f"{spec.name}/{spec.schema}"))
    return differences(spec.table, wanted, present)


def differences(table: str, wanted: Mapping[str, str], present: Mapping[str, str]) -> list[str]:
    """What of ``wanted`` (column -> Iceberg type, of a nested one its beginning) and of the coordinates is
    not so. Columns beyond these are no problem: an older schema may have had them."""
    problems = []
    for name, kind in {**wanted, **COORDINATES}.items():
        found = present.get(name)
        if found is None:
            problems.append(
                f"schema: table {table} has no column {name} ({kind}); restart the stream's consumer"
            )
        elif not (found in (kind, _WIDER.get(kind)) or (kind.endswith("<") and found.startswith(kind))):
            problems.append(f"schema: column {name} of table {table} is {found}, the stream declares {kind}")
    return problems
