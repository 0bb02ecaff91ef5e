"""A sink against the lake: what differs is named."""

from __future__ import annotations

from sluice.config.sections.query import Query
from sluice.config.sections.sink import Sink
from sluice.queries.compare import compare

QUERY = Query([Sink("console")], ["zipcode"], {"hits": "count", "users": "distinct user_id"})


def test_a_sink_that_holds_the_same_is_exact() -> None:
    found = compare("kafka hits", QUERY, {"1": (2, 1), "2": (3, 3)}, {"2": (3, 3), "1": (2, 1)})
    assert found.is_ok
    assert found.message() == "kafka hits: 2 results, 5 in all, as in the lake"


def test_what_differs_is_named_a_few_of_each() -> None:
    lake = {str(n): (n, 1) for n in range(20)}
    sink = {str(n): (n, 1) for n in range(10)} | {"3": (4, 2), "x": (1, 1)}
    found = compare("jdbc hits", QUERY, lake, sink)
    assert not found.is_ok
    assert found.differences == 12
    assert found.message() == (
        "jdbc hits: 12 of 20 results are not as in the lake (47 in all, in the lake 190): missing 10, 11, "
        "12, 13, 14; not in the lake x; different 3 (hits 4 users 2, in the lake hits 3 users 1)"
    )


def test_the_same_sum_with_another_share_is_not_exact() -> None:
    assert not compare("kafka hits", QUERY, {"1": (2, 1), "2": (3, 1)}, {"1": (3, 1), "2": (2, 1)}).is_ok


def test_every_measure_is_compared() -> None:
    assert not compare("jdbc hits", QUERY, {"1": (2, 1)}, {"1": (2, 2)}).is_ok
