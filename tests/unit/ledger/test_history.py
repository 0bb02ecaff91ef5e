"""A stream's events: written once, counted from their keys, and the hold that is in force."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from sluice.config.sections.supervision import Supervision
from sluice.core.errors import Refused, Unreachable
from sluice.core.processes.restarts import RestartHistory
from sluice.core.tables.file_removal import MetadataRecord
from sluice.ledger.history import History
from sluice.ledger.keys import RUNTIME, history_key, moment_of
from tests.support.memory_s3 import MemoryS3, error
from tests.support.raising import raising

NOON = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
POLICY = Supervision(restart_window_seconds=600)


def make(client: MemoryS3, stream: str = "nyc_taxi") -> History:
    return History(client.as_client(), "s3://warehouse/ledger", stream)


def ago(seconds: float) -> datetime:
    return NOON - timedelta(seconds=seconds)


def test_an_event_is_kept_once_with_its_kind_moment_and_stream() -> None:
    client = MemoryS3()
    kept = make(client).record("restart", {"who": "schedule"}, NOON)
    assert kept == {
        "who": "schedule",
        "kind": "restart",
        "at": "2026-03-01T12:00:00.250000+00:00",
        "stream": "nyc_taxi",
    }
    ((bucket, key),) = client.objects
    assert bucket == "warehouse"
    assert key.startswith("ledger/nyc_taxi/history/restart/")
    assert "-20260301T120000.250000Z-" in key
    assert json.loads(client.objects[bucket, key]) == kept
    # An answer that was lost, so it is recorded again.
    assert make(client).record("restart", {"who": "schedule"}, NOON) == kept
    assert len(client.objects) == 1
    # Another event of the same moment is another event.
    make(client).record("restart", {"who": "operator"}, NOON)
    assert len(client.objects) == 2


def test_moments_of_another_zone_are_kept_in_utc() -> None:
    client = MemoryS3()
    there = NOON.astimezone(timezone(timedelta(hours=5)))
    assert make(client).record("stop", {}, there)["at"] == NOON.isoformat()
    ((_, key),) = client.objects
    assert "-20260301T120000.250000Z-" in key
    assert moment_of(key) == NOON


def test_moments_do_not_depend_on_the_machines_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        assert moment_of(history_key("stop", NOON, "x")) == NOON
    time.tzset()


def test_since_is_from_the_moment_on_oldest_first_and_of_one_kind_and_stream() -> None:
    client = MemoryS3()
    history = make(client)
    for seconds in (0, 20, 10, 30):
        history.record("health", {"n": seconds}, ago(seconds))
    history.record("restart", {"n": 5}, ago(5))
    make(client, "nyc").record("health", {"n": 1}, ago(1))
    assert [event["n"] for event in history.since("health", ago(20))] == [20, 10, 0]
    assert history.since("health", NOON + timedelta(microseconds=1)) == []


def test_records_of_metadata_come_newest_first_and_are_read_as_they_are_asked_for() -> None:
    client = MemoryS3()
    history = make(client)
    for seconds in (30, 20, 10, 0):
        history.record_metadata({"raw.t": f"s3://{seconds}"}, ago(seconds), f"run {seconds}")
    records = history.metadata()
    assert client.got == []
    assert next(records) == MetadataRecord(NOON, {"raw.t": "s3://0"}, "run 0")
    assert len(client.got) == 1
    assert [record.run for record in records] == ["run 10", "run 20", "run 30"]
    assert list(make(client, "other").metadata()) == []


def test_the_newest_event_is_found_however_old_it_is() -> None:
    client = MemoryS3()
    history = make(client)
    assert history.latest("health") is None
    history.record("health", {"n": "old"}, ago(40 * 86_400))
    history.record("health", {"n": "older"}, ago(50 * 86_400))
    assert (history.latest("health") or {})["n"] == "old"
    requested = len(client.listed)
    history.record("health", {"n": "new"}, ago(86_400))
    history.record("health", {"n": "newer"}, ago(60))
    assert (history.latest("health") or {})["n"] == "newer"
    assert client.listed[requested:] == [
        {"Bucket": "warehouse", "Prefix": "ledger/nyc_taxi/history/health/", "MaxKeys": 1}
    ]


def test_what_is_asked_does_not_follow_the_number_of_events() -> None:
    asked = []
    for events in (1, 500):
        client = MemoryS3(page=10)
        history = make(client)
        for seconds in range(events):
            for kind in ("health", "suspend", "resume"):
                history.record(kind, {}, ago(1000 * (seconds + 1)))
        client.requests.clear()
        history.latest("health")
        history.suspended()
        history.restart_history(NOON, POLICY)
        asked.append(client.requests.copy())
    assert asked[0] == asked[1]


def test_many_events_come_in_pages() -> None:
    client = MemoryS3(page=2)
    history = make(client)
    for seconds in range(5):
        history.record("restart", {}, ago(seconds))
    assert len(history.since("restart", ago(3))) == 4
    assert (history.latest("restart") or {})["at"] == NOON.isoformat()


def test_what_is_no_event_is_left_out() -> None:
    client = MemoryS3()
    history = make(client)
    prefix = "ledger/nyc_taxi/history/restart"
    for name in ("", "readme.txt", "20269901T000000.000000Z-x.json", "99990101T000000.000000Z.json"):
        client.objects["warehouse", f"{prefix}/{name}"] = b"{}"
    assert history.since("restart", ago(86_400)) == []
    assert history.latest("restart") is None


SUSPEND, RELEASE = "suspend", "resume"
SUSPENDED = {
    "nothing": ([], False),
    "a hold": ([(SUSPEND, 30)], True),
    "a hold of last year": ([(SUSPEND, 400 * 86_400)], True),
    "released": ([(SUSPEND, 30), (RELEASE, 20)], False),
    "held again": ([(SUSPEND, 30), (RELEASE, 20), (SUSPEND, 10)], True),
    "both at one moment: not restarting is the safer mistake": ([(SUSPEND, 30), (RELEASE, 30)], True),
    "a release alone": ([(RELEASE, 10)], False),
}


@pytest.mark.parametrize("case", SUSPENDED)
def test_the_newest_of_hold_and_release_counts(case: str) -> None:
    events, suspended = SUSPENDED[case]
    history = make(MemoryS3())
    for kind, seconds in events:
        history.record(kind, {"who": "operator", "reason": f"move {seconds}"}, ago(seconds))
    found = history.suspended()
    assert (found is not None) == suspended
    if found:
        newest = min(seconds for kind, seconds in events if kind == SUSPEND)
        assert found["reason"] == f"move {newest}"


def test_the_history_has_the_windows_restarts_and_the_suspension_in_words() -> None:
    client = MemoryS3()
    history = make(client)
    begin = ago(POLICY.restart_window_seconds).timestamp()
    assert history.restart_history(NOON, POLICY) == RestartHistory([], None, begin, begin)
    history.record("resume", {}, ago(86_400))
    expected = RestartHistory([], None, begin, begin, requested_at=ago(86_400).timestamp())
    assert history.restart_history(NOON, POLICY) == expected, "however long ago"
    for seconds in (601, 600, 10):
        history.record("restart", {}, ago(seconds))
    client.got.clear()
    assert history.restart_history(NOON, POLICY).restarts == [ago(600).timestamp(), ago(10).timestamp()]
    assert len(client.got) == 2, "those of the window alone are read"
    client.got.clear()
    history.record("suspend", {"who": "operator", "reason": "the node moves"}, ago(5))
    suspended = "by operator since 2026-03-01T11:59:55.250000+00:00: the node moves"
    assert history.restart_history(NOON, POLICY).suspended == suspended
    assert len(client.got) == 3, "the hold besides"
    history.record("suspend", {}, ago(4))
    assert history.restart_history(NOON, POLICY).suspended == (
        "by an unknown user since 2026-03-01T11:59:56.250000+00:00: no reason given"
    )


@pytest.mark.parametrize(("code", "kind"), [("AccessDenied", Refused), ("SlowDown", Unreachable)])
def test_a_history_that_does_not_answer_is_an_error_and_not_an_empty_one(
    code: str, kind: type[Exception]
) -> None:
    client = MemoryS3()
    client.refuse_lists = [error(code, "ListObjectsV2")]
    with raising(kind, "s3://warehouse/ledger/nyc_taxi/history/suspend/", code):
        make(client).restart_history(NOON, POLICY)


def test_a_restart_that_two_runs_made_of_one_instance_counts_once_and_the_runtimes_too() -> None:
    history = make(MemoryS3())
    for seconds, who, identity in ((50, "schedule", "1"), (49, "schedule", "1"), (40, RUNTIME, "runtime 9")):
        history.record("restart", {"who": who, "identity": identity, "requested": False}, ago(seconds))
    recorded = history.restart_history(NOON, POLICY)
    assert recorded.restarts == [ago(49).timestamp(), ago(40).timestamp()]
    assert recorded.runtime_restart_at == ago(40).timestamp()


@pytest.mark.parametrize(
    ("acted", "is_left"), [(None, True), ("suspend", True), ("restart", True), ("resume", False)]
)
def test_who_keeps_ending_is_left_to_a_person_until_one_acts(acted: str | None, is_left: bool) -> None:
    history, since = make(MemoryS3()), ago(86_400)
    history.record("resume", {}, ago(90_000))
    left = {"left_since": since.timestamp(), "requested_at": ago(90_000).timestamp()}
    history.record("health", {"health": "flapping", **left}, since)
    history.record("health", {"health": "unknown", **left}, ago(80_000))
    if acted:
        history.record(acted, {"requested": False}, ago(30))
    found = history.restart_history(NOON, POLICY)
    assert (found.recorded or {})["health"] == "unknown"
    assert found.left_since == (since.timestamp() if is_left else None)


def test_a_clock_that_was_ahead_voids_no_person_s_action() -> None:
    """The triggerer records the health, a worker the action: not their times are compared."""
    history = make(MemoryS3())
    ahead = ago(-3_600)
    history.record(
        "health", {"health": "flapping", "left_since": ahead.timestamp(), "requested_at": 0.0}, ahead
    )
    assert history.restart_history(NOON, POLICY).left_since is not None
    history.record("resume", {}, ago(1))
    assert history.restart_history(NOON, POLICY).left_since is None


def test_the_newest_key_sorts_first_and_tells_its_moment() -> None:
    keys = [history_key("stop", ago(seconds), "ab") for seconds in (3600, 1, 0.001, 0)]
    assert keys == sorted(keys, reverse=True)
    assert [moment_of(f"ledger/x/{key}") for key in keys] == [ago(s) for s in (3600, 1, 0.001, 0)]
    countdown = 10**16 - 1 - int(NOON.timestamp() * 1_000_000)
    key = history_key("stop", NOON, "ab")
    assert key == f"history/stop/{countdown:017d}-20260301T120000.250000Z-ab.json"
    assert moment_of("runs/x/plan.json") is None


@pytest.mark.parametrize(
    ("kind", "document", "counted"),
    [
        ("restart", {"requested": True}, [50]),
        ("restart", {"requested": False, "n": 0}, [500, 300, 100, 50]),
        ("resume", {}, [50]),
        ("suspend", {}, [500, 300, 50]),
    ],
)
def test_restarts_before_a_person_said_to_go_on_do_not_count(
    kind: str, document: dict[str, Any], counted: list[int]
) -> None:
    history = make(MemoryS3())
    for seconds in (700, 500, 300, 50):
        history.record("restart", {"requested": False}, ago(seconds))
    # In the order in which they came: a word that was said before changes nothing.
    history.record(kind if kind != "restart" else "resume", document, ago(590))
    history.record(kind, document, ago(100))
    assert history.restart_history(NOON, POLICY).restarts == [ago(seconds).timestamp() for seconds in counted]


def test_a_stream_counts_as_maintained_when_that_is_asked_first() -> None:
    history = make(MemoryS3())
    assert [history.maintained_at(ago(seconds)) for seconds in (90, 80)] == [ago(90)] * 2
    history.record_maintenance(ago(70), "r")
    assert history.maintained_at(NOON) == ago(70)
