"""The last checks of components: which one counts, and what is none."""

from __future__ import annotations

import json

import pytest

from sluice.supervision.checks.check import Check, Checks

CHECK = Check("nyc_taxi", "consumer", 1_000.5, 480.0)


def test_the_check_that_was_received_last_counts_whatever_its_time() -> None:
    ahead = Check("nyc_taxi", "consumer", 9e9, 480.0)
    known = Checks([ahead])
    known.add(CHECK)
    assert known.of({"nyc_taxi"}) == [CHECK]
    assert Checks.parse(known.dump()).of({"nyc_taxi"}) == [CHECK]


@pytest.mark.parametrize("field", ["at", "max_age_seconds"])
@pytest.mark.parametrize("value", ["Infinity", "-Infinity", "NaN", "1" + "0" * 400, "0", "-1", '"1"', "null"])
def test_what_is_no_number_of_seconds_is_refused(field: str, value: str) -> None:
    text = json.dumps(vars(CHECK) | {field: "here"}).replace('"here"', value)
    with pytest.raises(ValueError, match="no check"):
        Check.parse(json.loads(text))
