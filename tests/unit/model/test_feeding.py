"""What a producer's last line must be, and every way of not being so."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.model.feeding import SHOWN, Fed, parse
from spark_jobs.common.feed.main import Result
from spark_jobs.common.feed.reader import Counts
from tests.support.raising import raising

RESULT: dict[str, Any] = {
    "begin": {"0": 5, "1": 0}, "ends": {"0": 9, "1": 2}, "events": 6, "sent": 5, "known": 2,
    "canary": 1, "poison": 1, "adopted": False, "seconds": 1.5,
}  # fmt: skip


def test_a_result() -> None:
    fed = parse(json.dumps(RESULT))
    assert fed == Fed({0: 5, 1: 0}, {0: 9, 1: 2}, 6, 5, 2, 1, 1, False, 1.5)
    assert json.loads(json.dumps(fed.counts())) == {
        key: value for key, value in RESULT.items() if key not in ("begin", "ends")
    }
    assert parse(json.dumps(RESULT | {"more": 1, "seconds": 2})).seconds == 2.0


def test_what_the_producer_writes_is_one() -> None:
    told = Result({0: 5, 1: 0}, {0: 9, 1: 2}, Counts(5, 2, 1, 1), adopted=False, seconds=1.54)
    assert parse(json.dumps(told.document())) == parse(json.dumps(RESULT))


def test_a_partition_that_was_added_meanwhile_begins_with_its_first_offset() -> None:
    assert parse(json.dumps(RESULT | {"ends": {"0": 9, "1": 2, "2": 4}, "sent": 10})).ends[2] == 4


def test_as_many_events_as_offsets_may_have_been_sent() -> None:
    assert parse(json.dumps(RESULT | {"sent": 6})).sent == 6


WRONG: dict[str, tuple[Any, str]] = {
    "a list": ([], "a list"),
    "a number for offsets": (RESULT | {"begin": 5}, "begin is 5"),
    "no partition": (RESULT | {"begin": {}, "ends": {}}, "partitions"),
    "another partition": (RESULT | {"ends": {"0": 9}}, "[0, 1]"),
    "odd partitions": (RESULT | {"begin": {"0": 5, " 1": 0}}, "begin has ' 1'"),
    "a word for a partition": (RESULT | {"ends": {"one": 9}}, "ends has 'one'"),
    "an end before its begin": (RESULT | {"ends": {"0": 4, "1": 2}}, "0 ends at 4"),
    "a negative offset": (RESULT | {"begin": {"0": -1, "1": 0}}, "0 is -1"),
    "an offset as text": (RESULT | {"ends": {"0": "9", "1": 2}}, "0 is '9'"),
    "half an event": (RESULT | {"events": 1.5}, "events is 1.5"),
    "true for a number": (RESULT | {"poison": True}, "poison is True"),
    "more sent than there is room": (RESULT | {"sent": 7}, "7 events"),
    "a number for a flag": (RESULT | {"adopted": 0}, "adopted is 0"),
    "time that runs back": (RESULT | {"seconds": -1}, "seconds is -1"),
    "no time at all": (RESULT | {"seconds": None}, "seconds is None"),
    "not a time": (RESULT | {"seconds": float("nan")}, "seconds is nan"),
}  # fmt: skip
for _key in RESULT:
    WRONG[f"without {_key}"] = {k: v for k, v in RESULT.items() if k != _key}, f"{_key} "


@pytest.mark.parametrize(("data", "named"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_said_with_what_came(data: Any, named: str) -> None:
    line = json.dumps(data)
    with raising(ValueError, named, repr(line[:SHOWN])[:-1]):
        parse(line)


def test_no_line_and_no_json() -> None:
    with raising(ValueError, "no result"):
        parse(None)
    with raising(ValueError, "'Killed'"):
        parse("Killed")


def test_a_long_line_is_cut() -> None:
    with raising(ValueError, "x…'") as caught:
        parse("x" * 10_000)
    assert len(str(caught.value)) < 2 * SHOWN


keys = st.sampled_from([*RESULT, "0", "1", "x"])
scalars = st.none() | st.booleans() | st.floats() | st.integers() | st.text()
anything = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(keys, inner))
nearly = st.fixed_dictionaries(
    {key: st.just(value) | st.none() | st.integers() for key, value in RESULT.items()}
)


@given(anything | nearly)
def test_anything_else_is_a_value_error(data: Any) -> None:
    try:
        fed = parse(json.dumps(data))
    except ValueError:
        return
    assert fed.sent <= sum(end - fed.begin.get(p, 0) for p, end in fed.ends.items())
