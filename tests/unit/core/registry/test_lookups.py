"""The order in which the ids of a piece of records are asked for."""

from __future__ import annotations

from sluice.core.registry.errors import Forbidden
from sluice.core.registry.lookups import in_turn
from tests.support.raising import raising


def test_what_is_forbidden_is_asked_for_again_beside_what_is_not() -> None:
    asked: list[int] = []

    def ask(schema_id: int) -> str:
        asked.append(schema_id)
        if schema_id == 9 and asked.count(9) == 1:
            raise Forbidden("no right")
        return str(schema_id)

    assert in_turn([9, 3, 5], ask) == {3: "3", 5: "5", 9: "9"}
    assert asked == [9, 3, 5, 9]


def test_what_stays_forbidden_is_no_answer() -> None:
    def ask(schema_id: int) -> str:
        raise Forbidden(f"no right to {schema_id}")

    with raising(Forbidden, "no right to 9"):
        in_turn([9, 3], ask)
