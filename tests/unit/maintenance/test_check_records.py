"""Old records of checks go; what the next check reads, and what Airflow knows of, stays."""

from __future__ import annotations

from typing import Any, cast

import pytest

from sluice.config.sections.maintenance import Maintenance
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.json_record import Document
from sluice.ledger.keys import METADATA, OF_CHECKS, PROOF, VERIFIED_TABLE, history_prefix
from sluice.maintenance import check_records
from sluice.maintenance.check_records import CheckRecords
from tests.support.maintained import DAY, MaintainedStream, later

OTHERS = ("health", "suspend", "resume", PROOF, METADATA)


def checked(days: int = 20) -> MaintainedStream:
    """A stream of so many days, with records of every kind every four hours."""
    stream = MaintainedStream()
    for _ in range(days):
        for _ in range(6):
            later(stream, 1 / 6)
            for kind in (*OF_CHECKS, *OTHERS[:-1]):
                stream.ledger.record_run(kind, {}, stream.now)
        stream.note()
    return stream


def remove(stream: MaintainedStream, marked: tuple[str, ...] = (), fewest_days: int = 0) -> Document:
    return CheckRecords(cast("Any", stream), stream.spec, marked, fewest_days).remove(stream.now)


def number(stream: MaintainedStream, kind: str) -> int:
    return len(list(stream.ledger.keys(history_prefix(kind))))


def test_as_many_are_left_after_a_year_as_after_a_month() -> None:
    left = []
    for days in (12, 40):
        stream = checked(days)
        before = {kind: stream.ledger.newest_keys(kind, 18) for kind in OF_CHECKS}
        others = {kind: number(stream, kind) for kind in OTHERS}
        assert remove(stream)["removed"] > 0
        left.append({kind: number(stream, kind) for kind in OF_CHECKS})
        # Three days of six.
        assert {kind: stream.ledger.newest_keys(kind, 18) for kind in OF_CHECKS} == before
        assert {kind: number(stream, kind) for kind in OTHERS} == others
        assert remove(stream)["removed"] == 0
    assert left[0] == left[1]
    assert max(left[0].values()) < 35


def test_the_newest_stays_however_old_it_is() -> None:
    stream = checked()
    newest = {kind: stream.ledger.newest_keys(kind, 1) for kind in OF_CHECKS}
    for _ in range(12):
        later(stream, 1)
        stream.note()
    remove(stream)
    assert {kind: stream.ledger.newest_keys(kind, 2) for kind in OF_CHECKS} == newest


def test_what_airflow_knows_of_stays() -> None:
    stream = checked()
    oldest = list(stream.ledger.keys(history_prefix(VERIFIED_TABLE)))[-1]
    remove(stream, (oldest,))
    assert stream.ledger.get(oldest) is not None


def test_another_key_and_one_that_was_written_late_stay() -> None:
    stream = checked()
    prefix = history_prefix(VERIFIED_TABLE)
    late = list(stream.ledger.keys(prefix))[-1]
    stream.s3.modified["w", f"ledger/trips/{late}"] = stream.now
    stream.ledger.put(f"{prefix}99999999999999999-other.json", {})
    remove(stream)
    assert list(stream.ledger.keys(prefix))[-2:] == [late, f"{prefix}99999999999999999-other.json"]


def test_a_run_removes_all_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of hourly checks where maintenance runs once a week."""
    monkeypatch.setattr(check_records, "PORTION", 10)
    stream, portions = checked(), []
    removed = stream.remove_objects

    def counted(bucket: str, keys: list[str]) -> None:
        portions.append(len(keys))
        removed(bucket, keys)

    stream.remove_objects = counted  # type: ignore[method-assign, assignment]
    assert remove(stream)["removed"] == sum(portions) > 10 * len(portions[1:]) > 100
    assert remove(stream)["removed"] == 0


def test_a_run_ends_in_time_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_records, "PORTION", 10)
    monkeypatch.setattr(check_records, "MAX_SECONDS", 5)
    times = iter(range(100))
    monkeypatch.setattr(check_records.time, "monotonic", lambda: next(times))
    stream = checked()
    result = remove(stream)
    assert result["removed"] == 40
    assert "more are left after 5 s" in result["result"]


def test_what_the_horizon_does_not_cover_stays() -> None:
    assert "do not cover 30 days" in remove(checked(), fewest_days=30)["result"]
    stream = checked(5)
    stream.maintenance = Maintenance()
    assert "do not cover 90 days" in remove(stream)["result"]
    stream.ledger.record_metadata({}, stream.now + DAY, "ahead")
    assert "from the future" in remove(stream)["result"]


def test_a_role_without_the_right_removes_nothing_and_says_so() -> None:
    stream = checked()
    stream.refuses = Refused("s3://w/x: AccessDenied", ErrorCode.S3_PERMISSION)
    assert "AccessDenied" in remove(stream)["notes"][0]
    stream.refuses = Refused("another", ErrorCode.S3_UNREACHABLE)
    with pytest.raises(Refused, match="another"):
        remove(stream)
