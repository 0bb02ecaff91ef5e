"""What a member of the text of further fields is, if several schemas may have written it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sluice.core.decoding.filling.from_json import written
from sluice.core.decoding.filling.merging import Outcome

NO_SCHEMA = "no known schema of the records has it, with the other fields of its row"
OTHER_TYPES = "schemas of the records have it with other types, and its text is of several"
NO_TYPE = "its text is of no type that it has in a known schema of the records"
NO_COLUMN = "a known schema of the records has it without a column"


def only_one(
    name: str, value: Any, found: Sequence[tuple[str, Outcome]], reasons: Sequence[str]
) -> tuple[str, Outcome]:
    """The column of a member, and what all schemas that may have it make of it; it stays if they differ.
    ``found``: what those make of it that can have written it; ``reasons``: why others cannot tell."""
    distinct = {repr(one): one for one in found}
    if len(distinct) == 1 and not reasons:
        (only,) = distinct.values()
        return only
    reason = reasons[0] if reasons else OTHER_TYPES if distinct else NO_TYPE
    return "", Outcome(None, written(value), kept=[(name, reason)])
