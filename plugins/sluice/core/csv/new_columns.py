"""A schema with the columns of a file's header that it does not have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sluice.core.bounds import MAX_COLUMNS
from sluice.core.csv.header import InvalidHeader, same
from sluice.core.messages import quoted


def with_new_columns(
    schema: Mapping[str, Any], names: Sequence[str], problem: Callable[[str], str], where: str
) -> Mapping[str, Any]:
    """An Avro ``schema`` with a text that may be null for each of a header's ``names`` that it does not have,
    by the name that ``header.same`` gives it: the same schema for the same columns in another order or
    spelling, and ``schema`` itself without any, or if the header has none of its columns.

    ``problem``: why no column may have a name, empty if one may. Raises InvalidHeader, naming ``where``.
    """
    known = {same(field["name"]) for field in schema["fields"]}
    new = {same(name): name for name in names if same(name) not in known}
    # A file of something else, which the layout refuses.
    if not new or len(new) == len(names):
        return schema
    for column, name in new.items():
        if why := problem(column):
            said = quoted(name) if name == column else f"{quoted(name)}, as {quoted(column)},"
            raise InvalidHeader(
                f"{where}: column {said} of the header is new, and none of the table can be called so: {why}."
                " Fix: rename it in the file"
            )
    if (count := len(schema["fields"]) + len(new)) > MAX_COLUMNS:
        raise InvalidHeader(
            f"{where}: the header makes {count} columns with those of the schema, and a table has at most "
            f"{MAX_COLUMNS} of records. Fix: correct the file"
        )
    added = [{"name": name, "type": ["null", "string"], "default": None} for name in sorted(new)]
    return {**schema, "fields": [*schema["fields"], *added]}
