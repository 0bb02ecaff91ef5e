"""How long a feed's client waits before it comes again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sluice.clients.backoff import seconds_asked
from spark_jobs.common.feed.client import MAX_RETRY_AFTER_SECONDS, MAX_SECONDS, delay

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def test_the_time_doubles_up_to_a_bound() -> None:
    assert [delay(failures, 1.0) for failures in (1, 2, 3, 4)] == [1, 2, 4, 8]
    assert delay(7, 1.0) == delay(10_000, 1.0) == MAX_SECONDS


def test_the_jitter_is_full() -> None:
    assert delay(5, 0.0) == 0
    assert delay(5, 0.25) == 4


@pytest.mark.parametrize(
    ("asked", "waited"), [(0.0, 0.5), (3.0, 3.5), (-7.0, 0.5), (1e12, MAX_RETRY_AFTER_SECONDS + 0.5)]
)
def test_what_the_server_asks_for_comes_on_top(asked: float, waited: float) -> None:
    assert delay(1, 0.5, asked) == waited


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, 0),
        ("120", 120),
        (" 7 ", 7),
        ("0", 0),
        ("-5", 0),
        ("soon", 0),
        ("", 0),
        ("9" * 5000, 999_999_999),
        ("Sat, 21 Nov 2026 12:00:30 GMT", 30),
        ("Sat, 21 Nov 2026 12:00:30 -0000", 30),
        ("Sat, 21 Nov 2026 11:00:00 GMT", 0),
        ("Sat, 99 Nov 2026 11:00:00 GMT", 0),
    ],
)
def test_retry_after_is_a_number_or_a_date(header: str | None, seconds: float) -> None:
    assert seconds_asked(header, NOON) == seconds
