"""The order in which the ids of a piece of records are asked for, and what stays known of them."""

from __future__ import annotations

from sluice.core.registry.errors import Forbidden
from sluice.core.registry.lookups import Kept, in_turn
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


def kept(entries: Kept[str, int], *keys: str) -> dict[str, int | None]:
    return {key: entries.get(key) for key in keys}


def test_a_flood_takes_no_place_of_what_is_in_use() -> None:
    entries = Kept[str, int](2, 100)
    for piece in range(5):
        entries.next_piece()
        if entries.get("live") is None:
            assert not piece
            entries.put("live", 1, 1)
        for one in range(4):
            assert entries.put(f"new {piece} {one}", one, 1) == one
        assert len(entries) == 2
    # What was not asked for any longer gives its place.
    entries.next_piece()
    entries.put("a", 1, 1)
    entries.put("b", 2, 1)
    assert kept(entries, "live", "a", "b") == {"live": None, "a": 1, "b": 2}


def test_sizes_are_bounded_and_none_beyond_them_is_kept() -> None:
    gone: list[str] = []
    entries = Kept[str, int](10, 100, gone.append)
    entries.put("small", 1, 40)
    entries.put("larger", 2, 60)
    entries.put("too large", 3, 101)
    assert kept(entries, "small", "larger", "too large") == {"small": 1, "larger": 2, "too large": None}
    entries.next_piece()
    assert gone == ["too large"]
    entries.get("small")
    entries.put("other", 4, 30)
    assert kept(entries, "small", "larger", "other") == {"small": 1, "larger": None, "other": 4}
    # Back before the next piece: it is not forgotten.
    entries.put("larger", 5, 10)
    entries.put("much", 6, 99)
    entries.next_piece()
    assert gone == ["too large", "much"]
