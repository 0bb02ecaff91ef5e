"""The bounds of records' times, which Spark can read."""

from __future__ import annotations

from sluice.config.sections.topic import Topic
from sluice.loads.sending.topic import TIMESTAMP_BOUNDS, with_timestamp_bounds

AFTER, BEFORE = "message.timestamp.after.max.ms", "message.timestamp.before.max.ms"
# Java's largest long, in ms: Spark multiplies a record's timestamp by 1000.
LIMIT_MS = (2**63 - 1) // 1000
NOW_MS = 1_795_400_000_000


def test_no_record_within_the_bounds_overflows_and_all_history_since_1970_is_within() -> None:
    bounds = {key: int(value) for key, value in with_timestamp_bounds(Topic("t", 1)).config.items()}
    assert set(bounds) == {AFTER, BEFORE}
    assert NOW_MS + bounds[AFTER] < LIMIT_MS
    assert -LIMIT_MS < NOW_MS - bounds[BEFORE] < 0


def test_a_declared_bound_is_kept() -> None:
    config = with_timestamp_bounds(Topic("t", 1, config={AFTER: "5", "retention.ms": "6"})).config
    assert config == {AFTER: "5", BEFORE: TIMESTAMP_BOUNDS[BEFORE], "retention.ms": "6"}
