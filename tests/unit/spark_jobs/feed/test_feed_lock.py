"""The number of a feed's lock."""

from __future__ import annotations

from spark_jobs.common.feed.lock import lock_key


def test_it_is_the_same_for_everybody_and_fits_into_a_bigint() -> None:
    # Written down: another one would let an old and a new release produce at once.
    assert lock_key("producer/wiki_changes") == 5320905647688268311
    assert lock_key("producer/wiki_changes") != lock_key("producer/nyc_taxi")
    assert all(-(2**63) <= lock_key(str(n)) < 2**63 for n in range(100))
