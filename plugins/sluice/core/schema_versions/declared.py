"""What a table is read with: the schema that it follows, with what its declaration has beyond that."""

from __future__ import annotations

from sluice.core.decoding.avro.following.merging import merge
from sluice.core.decoding.avro.parsing import parsed
from sluice.core.decoding.protobuf.decoder import TableMessage
from sluice.core.decoding.protobuf.following.merging import merge as merge_messages
from sluice.core.decoding.protobuf.following.written import row_of_text
from sluice.core.error_codes import ErrorCode


class Contradiction(ValueError):
    """The declared schema is none of what a table follows."""

    code = ErrorCode.INCOMPATIBLE_SCHEMA


def schema_of_table(declared: str, followed: str) -> str:
    """The text of an Avro schema. ``followed``: that of what the table follows, empty if it is ``declared``.
    Raises Contradiction."""
    if not followed:
        return declared
    found = merge(parsed(followed), parsed(declared))
    if found.conflicts:
        raise Contradiction(found.reason)
    return found.text


def message_of_table(declared: TableMessage, followed: str) -> TableMessage:
    """As :func:`schema_of_table`, of Protobuf."""
    if not followed:
        return declared
    name, row = row_of_text(followed)
    if name != declared.name:
        raise Contradiction(f"its message is {declared.name}, and the table's is {name}")
    found = merge_messages(
        row, declared.descriptor, declared.as_text, recursive_as_text=declared.recursive_as_text
    )
    if found.conflicts:
        raise Contradiction(found.reason)
    return declared.following(found.schema)
