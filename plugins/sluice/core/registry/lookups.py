"""What is made of the schemas of ids: in which order they are asked for, and what is known from then on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from sluice.core.registry.errors import Forbidden, RefusedSchema, UnknownSchema
from sluice.core.registry.schemas import RegisteredSchema, Schemas

Answer = TypeVar("Answer")
Key = TypeVar("Key")


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


def of_id(
    known: dict[int, Answer | str],
    schema_id: int,
    schemas: Schemas,
    made: Callable[[RegisteredSchema], Answer | str],
    most: int,
) -> Answer | str:
    """What is ``made`` of the schema of an id, or the reason why records that name it are rejected; one of
    the ``most`` that are ``known`` from then on, unless ``made`` raises UnknownSchema or RefusedSchema.
    Raises what ``made`` and the registry raise beside these."""
    found = known.get(schema_id)
    if found is not None:
        return found
    try:
        return kept(known, schema_id, made(schemas.get(schema_id)), most)
    # What the registry does not have now, it may have later.
    except (UnknownSchema, RefusedSchema) as error:
        return str(error)


def kept(known: dict[Key, Answer], key: Key, found: Answer, most: int) -> Answer:
    """``found``, which is known from now on, in the place of the oldest one."""
    if len(known) >= most:
        del known[next(iter(known))]
    known[key] = found
    return found
