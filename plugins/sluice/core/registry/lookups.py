"""In which order the ids of a piece of records are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from sluice.core.registry.errors import Forbidden

Answer = TypeVar("Answer")


def in_turn(ids: Sequence[int], ask: Callable[[int], Answer]) -> dict[int, Answer]:
    """The answer for each id, asked in this order; those that the login may not read once more, after all
    others: only beside one that it may read are they judged. Raises what ``ask`` raises."""
    found: dict[int, Answer] = {}
    forbidden: list[int] = []
    for schema_id in ids:
        try:
            found[schema_id] = ask(schema_id)
        except Forbidden:
            forbidden.append(schema_id)
    for schema_id in forbidden:
        found[schema_id] = ask(schema_id)
    return found
