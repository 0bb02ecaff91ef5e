"""Times of answers: what servers write, and what they should not."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sluice.core.http_dates import http_date

AT = datetime(2026, 11, 28, 2, 19, tzinfo=UTC)
USUAL = "Sat, 28 Nov 2026 02:19:00 GMT"


@pytest.mark.parametrize(
    "text", [USUAL, f"{USUAL}, {USUAL}", "Sat, 28 Nov 2026 02:19:00 -0000", "Sat, 28 Nov 2026 02:19:00"]
)
def test_a_time_is_of_utc_whatever_it_says_of_its_zone(text: str) -> None:
    found = http_date(text)
    assert found == AT
    assert found.tzinfo is UTC or found.utcoffset() == UTC.utcoffset(None)


@pytest.mark.parametrize("text", ["", "soon", "0", "Sat, 99 Nov 2026 02:19:00 GMT"])
def test_what_is_no_time_is_none(text: str) -> None:
    assert http_date(text) is None
