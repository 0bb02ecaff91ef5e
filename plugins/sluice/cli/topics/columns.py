"""`sluice new-stream --topic`: which fields of records can be columns; the others stay in
`_unknown_fields`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, count
from typing import Any

from sluice.config.reading.names import check_avro, check_columns
from sluice.config.reading.toml import ConfigError
from sluice.config.schema import avro_iceberg_type
from sluice.core.decoding.avro.names import definitions, full_name, namespace_of
from sluice.core.registry.avro_references import self_contained

# As a stream's declaration names it, unless it says another name.
UNKNOWN_FIELDS = "_unknown_fields"


def of_ddl(columns: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Those that a table can have, and a doubt for each other one."""
    found: dict[str, str] = {}
    doubts: list[str] = []
    for name, kind in columns.items():
        try:
            _check([*found, name])
        except ConfigError as error:
            doubts.append(_doubt(name, error))
        else:
            found[name] = kind
    return found, doubts


def of_avro(text: str) -> tuple[str, list[str]]:
    """A schema's text with the fields that a table can have, and a doubt for each other one. Raises
    RefusedSchema for one that is no schema."""
    schema = json.loads(text)
    if not isinstance(schema, dict) or schema.get("type") not in ("record", "error"):
        return text, []
    named, namespace = dict(definitions(schema)), namespace_of(full_name(schema, ""))
    kept: list[Any] = []
    doubts: list[str] = []
    for field in schema["fields"]:
        try:
            _check([*(one["name"] for one in kept), field["name"]])
            check_avro(field["type"], "it")
            avro_iceberg_type(field["type"], named, namespace)
        # ConfigError is one, too.
        except ValueError as error:
            doubts.append(_doubt(field["name"], error))
        else:
            kept.append(field)
    if not doubts:
        return text, []
    trimmed = {**schema, "fields": kept}
    # Types that a field which is left out defined are defined where they are used first.
    lost = named.keys() - dict(definitions(trimmed)).keys()
    others = [json.dumps({**named[name], "name": name}) for name in sorted(lost)]
    return self_contained(json.dumps(trimmed), _outermost(others), "the schema"), doubts


def _check(names: Sequence[Any]) -> None:
    """Raises ConfigError if the last one can be no column beside the others."""
    check_columns(names, "it")
    if names[-1].lower() == UNKNOWN_FIELDS:
        raise ConfigError(f"it: the column {UNKNOWN_FIELDS} is that of fields without one")


def _outermost(texts: Iterable[str]) -> list[str]:
    """Without definitions that are inside of another one."""
    trees = [json.loads(text) for text in texts]
    inside = {name for tree in trees for name, _ in definitions(tree) if name != tree["name"]}
    return [json.dumps(tree) for tree in trees if tree["name"] not in inside]


def recursive_doubt(schema_id: int, first: str) -> str:
    """What to say of a recursive schema; ``first``: its first field that is inside of itself, and why."""
    return (
        f"schema id {schema_id} is recursive: {first}. Such fields are texts of JSON, as recursive_fields "
        "says; for columns of them declare a schema of your own, without the recursion"
    )


def column_beside(columns: Iterable[str], name: str) -> str:
    """The name of a column for what a record has beside its value, as ``key``: this one, unless a value has
    it."""
    taken = {column.lower() for column in columns}
    names = chain((name, f"record_{name}"), (f"record_{name}_{number}" for number in count(2)))
    return next(one for one in names if one not in taken)


def _doubt(name: Any, error: ValueError) -> str:
    why = str(error).removeprefix("it: ").split(". Fix:")[0]
    return f"field {name!r} can be no column of its own, and stays in _unknown_fields: {why}"
