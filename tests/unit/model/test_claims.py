from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluice.model.claims import Claims, Group, claimed, suspects
from sluice.model.ranges import RangeSet

A, B = "a" * 16, "b" * 16


def group(
    source: str, partition: int, base: int, lower: int, upper: int, records: int | None = None
) -> Group:
    return Group(source, partition, base, lower, upper, upper - lower + 1 if records is None else records)


def test_one_producer_undisturbed_is_above_suspicion() -> None:
    groups = [group(A, 0, 100, 100, 199), group(A, 1, 40, 40, 90)]
    assert suspects(Claims(), groups) == set()
    assert claimed(groups)[A] == RangeSet.of({0: [(0, 100)], 1: [(0, 51)]})


def test_a_resumed_producer_is_above_suspicion() -> None:
    seen = claimed([group(A, 0, 100, 100, 199)])
    assert suspects(seen, [group(A, 0, 150, 250, 299)]) == set()


def test_rows_that_the_table_has_are_seen() -> None:
    seen = claimed([group(A, 0, 100, 100, 199)])
    assert suspects(seen, [group(A, 0, 200, 299, 310)]) == {A}


def test_a_zombie_beside_its_successor_is_seen_in_one_batch() -> None:
    groups = [group(A, 0, 0, 0, 19, records=10), group(A, 0, 5, 10, 30, records=12), group(B, 0, 31, 31, 40)]
    assert suspects(Claims(), groups) == {A}


def test_the_same_rows_in_another_partition_are_other_rows() -> None:
    assert suspects(Claims(), [group(A, 0, 0, 0, 9), group(A, 1, 0, 0, 9)]) == set()


def test_claims_survive_json() -> None:
    claims = claimed([group(A, 0, 0, 0, 9), group(B, 3, 2, 7, 9)])
    assert Claims.from_json(claims.to_json()) == claims
    assert Claims.from_json("{}") == Claims()


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 20)), max_size=30))
def test_no_repeat_escapes(arrivals: list[tuple[int, int]]) -> None:
    """Records of one source at offsets 0, 1, 2 … with any (partition, seq): a repeat is always suspected."""
    bounds: dict[tuple[int, int], list[int]] = {}
    for offset, (partition, seq) in enumerate(arrivals):
        bounds.setdefault((partition, offset - seq), []).append(offset)
    groups = [group(A, p, base, min(o), max(o), len(o)) for (p, base), o in bounds.items()]
    if len(set(arrivals)) < len(arrivals):
        assert suspects(Claims(), groups) == {A}
