"""The replayed feed: event n is the same every time, and has the shape of a recorded one."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from local.replay.events import SERVERS, Feed
from local.replay.frames import OTHER_TOPIC, BadPosition, after, since, sse_id
from local.replay.frames import frame as plain_frame
from local.replay.schedule import Clock, RequestRecord, SavedPosition, State
from tests.support.faulty_replay import KINDS, MALFORMED, Faults, frame, payload
from tests.support.inspectable_feed import InspectableFeed
from tests.support.raising import raising

START = 1_790_000_000.25
FEED = InspectableFeed(start=START, rate=50, seed=1)


def test_an_event_is_a_function_of_the_seed_its_number_and_the_start() -> None:
    again = InspectableFeed(start=START, rate=50, seed=1)
    assert [FEED.data(n) for n in (0, 7, 1_000_000)] == [again.data(n) for n in (0, 7, 1_000_000)]
    moved, other = replace(FEED, start=START + 60), replace(FEED, seed=2)
    assert moved.event(7)["meta"]["id"] == FEED.event(7)["meta"]["id"] == FEED.event_id(7)
    assert moved.event(7)["timestamp"] == FEED.event(7)["timestamp"] + 60
    assert other.event_id(7) != FEED.event_id(7)
    assert len({FEED.event_id(n) for n in range(5_000)}) == 5_000


def test_an_event_has_the_recorded_shape_its_own_time_and_one_wiki_throughout() -> None:
    for n in range(200):
        event, recorded = FEED.event(n), FEED.recording[n % 50]
        meta = event["meta"]
        assert {(k, type(v)) for k, v in event.items()} == {(k, type(v)) for k, v in recorded.items()}
        assert {(k, type(v)) for k, v in meta.items()} == {(k, type(v)) for k, v in recorded["meta"].items()}
        for name in ("title", "comment", "type", "namespace", "length", "revision", "log_params"):
            assert event.get(name) == recorded.get(name)
        server, wiki = FEED.server(n)
        assert (event["server_name"], event["wiki"], meta["domain"]) == (server, wiki, server)
        assert event["notify_url"].startswith(f"https://{server}/") if "notify_url" in event else True
        assert meta["uri"].startswith(f"https://{server}/")
        assert (event["user"], event["bot"]) == (FEED.user(n).name, FEED.user(n).bot)
        assert datetime.fromisoformat(meta["dt"]).timestamp() == pytest.approx(FEED.at(n), abs=0.001)
        assert event["timestamp"] == FEED.changed_at(n)
        assert meta["offset"] == n


def test_some_changes_are_late_and_the_others_are_not() -> None:
    feed = replace(FEED, late_share=0.01)
    behind = [feed.at(n) - feed.changed_at(n) for n in range(20_000)]
    late = [n for n in range(20_000) if behind[n] >= 2_700]
    assert late == [n for n in range(20_000) if feed.is_late(n)]
    assert len(late) == pytest.approx(200, rel=0.25)
    assert max(behind[n] for n in range(20_000) if n not in set(late)) < 5
    punctual = replace(FEED, late_share=0.0)
    assert not any(punctual.is_late(n) for n in range(20_000))


def test_few_users_and_wikis_make_most_of_the_changes() -> None:
    servers = Counter(FEED.server(n)[0] for n in range(20_000))
    assert len(servers) == FEED.servers == 60
    assert servers.most_common(1)[0][0] == SERVERS[0][0]
    assert servers.most_common(1)[0][1] > 5 * servers.most_common()[20][1]
    users = Counter(FEED.user(n) for n in range(20_000))
    assert len(users) > 1_000
    assert users.most_common(1)[0][1] > 20 * users.most_common()[100][1]
    assert {user.bot for user, _ in users.most_common(20)} == {True, False}
    bots: dict[str, bool] = {}
    for n in range(2_000):
        assert bots.setdefault(FEED.user(n).name, FEED.user(n).bot) == FEED.user(n).bot


@pytest.mark.parametrize("wrong", [{"servers": 0}, {"servers": 500}, {"rate": 0}, {"late_share": 2}])
def test_a_feed_that_cannot_be(wrong: dict[str, Any]) -> None:
    with raising(ValueError, *wrong):
        Feed(start=START, **wrong)


def test_a_position_says_what_was_had() -> None:
    positions = json.loads(sse_id(FEED, 41))
    assert [set(position) for position in positions] == [
        {"topic", "partition", "timestamp"},
        {"topic", "partition", "offset"},
    ]
    assert positions[0]["topic"] == OTHER_TOPIC
    assert positions[0]["timestamp"] == int(FEED.at(41) * 1000)
    assert after(sse_id(FEED, 41)) == 42
    assert after('[{"topic":"codfw.mediawiki.recentchange","partition":0,"offset":-1}]') == 0


@pytest.mark.parametrize(
    "text", ["", "41", "[]", '[{"topic":"x","offset":1}]', sse_id(FEED, 1).replace("1}", "null}"), "{", "[1]"]
)
def test_a_position_of_another_feed(text: str) -> None:
    with pytest.raises(BadPosition):
        after(text)


def test_since_is_the_first_event_at_or_after_a_time() -> None:
    assert since(FEED, "0") == 0
    at = int(FEED.at(100) * 1000)
    assert since(FEED, str(at)) == 100
    assert since(FEED, str(at + 1)) == 101
    assert since(FEED, datetime.fromtimestamp(FEED.at(100), UTC).isoformat()) == 100
    with pytest.raises(BadPosition):
        since(FEED, "yesterday")


def test_a_frame_is_an_event_as_the_standard_writes_it() -> None:
    text = plain_frame(FEED, 3).decode()
    assert text == f"event: message\nid: {sse_id(FEED, 3)}\ndata: {FEED.data(3)}\n\n"
    assert json.loads(FEED.data(3)) == FEED.event(3)


def fields(data: bytes) -> dict[str, list[str]]:
    """A frame's fields, read as the standard says."""
    found: dict[str, list[str]] = {}
    assert data.decode().splitlines()[-1] == ""
    for line in data.decode().splitlines()[:-1]:
        name, _, value = line.partition(":")
        found.setdefault(name, []).append(value.removeprefix(" "))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_an_odd_event_is_odd_in_its_own_way(kind: str) -> None:
    faults = Faults(anomaly_every=1, anomalies=(kind,))
    read = fields(frame(FEED, 3, faults))
    text = "\n".join(read["data"])
    assert text == payload(FEED, 3, kind)
    assert ("id" in read) == (kind != "no_sse_id")
    assert (len(read["data"]) > 1) == (kind == "multi_line")
    assert ("" in read) == (kind == "comment")
    assert (b"\r\n\r\n" in frame(FEED, 3, faults)) == (kind == "crlf")
    try:
        parsed = json.loads(text)
    except ValueError:
        assert kind == "broken"
        return
    assert kind != "broken"
    assert isinstance(parsed, list) == (kind == "list")
    if kind not in MALFORMED:
        assert parsed["meta"]["id"] == FEED.event_id(3)
    if kind == "no_meta_id":
        assert "id" not in parsed["meta"]
    assert (kind in ("legacy", "list")) == ("$schema" not in parsed)
    if kind == "legacy":
        assert parsed["meta"]["schema_uri"] == "mediawiki/recentchange/2"
        assert datetime.fromisoformat(parsed["meta"]["dt"]).timestamp() == int(FEED.at(3))


def test_odd_events_and_canaries_come_at_their_turn() -> None:
    faults = Faults(anomaly_every=3, anomalies=("broken", "legacy"), canary_every=10)
    kinds = [faults.anomaly(n) for n in range(12)]
    assert kinds == [
        None,
        None,
        "broken",
        None,
        None,
        "legacy",
        None,
        None,
        "broken",
        "canary",
        None,
        "legacy",
    ]
    assert json.loads(payload(FEED, 9, "canary"))["meta"]["domain"] == "canary"


def test_the_feed_grows_with_the_clock_up_to_its_total() -> None:
    clock = Clock(born=100.0, rate=50, first=7)
    assert [clock.following(now) for now in (100.0, 100.01, 100.03, 110.0)] == [7, 7, 8, 507]
    assert Clock(born=100.0, rate=50, total=30).following(1000.0) == 30
    assert Clock(born=100.0, rate=0, total=30).following(100.0) == 30
    assert Clock(born=100.0, rate=0).following(100.0) > 10**12


def test_a_burst_is_faster_for_so_many_events_in_both_times() -> None:
    state = State(Clock(born=1_000.0, rate=50), Feed(start=1_000.0, rate=50))
    before = state.feed
    assert state.burst(2_000, 500, 1_010.0) == 500
    assert [state.clock.following(now) for now in (1_010.5, 1_012.0, 1_014.5)] == [750, 1_500, 2_525]
    assert [state.feed.at(n) for n in (499, 500, 750, 1_500, 2_500, 2_525)] == [
        *(before.at(499), 1_010.0, 1_010.5, 1_012.0, 1_014.0, 1_014.5),
    ]
    assert state.feed.event_id(700) == before.event_id(700)
    assert since(state.feed, "1012000") == 1_500
    assert state.burst(100, 100, 1_012.0) == 1_500, "another one ends the first"
    assert [state.feed.at(n) for n in (1_000, 1_500, 1_600, 1_650)] == [1_011.0, 1_012.0, 1_013.0, 1_014.0]
    assert state.clock.following(1_014.0) == 1_650
    assert state.burst(10, 5, 2_000.0) == state.clock.following(2_000.0) == 50_950
    slow = State(Clock(born=0.0, rate=50), Feed(start=0.0, rate=5))
    slow.burst(100, 500, 0.0)
    assert slow.feed.at(100) == 2.0, "ten times as fast as it was"
    for events, rate in ((0, 500), (5, 0)):
        with raising(ValueError, events, rate):
            state.burst(events, rate, 1_010.0)
    with pytest.raises(ValueError, match="burst"):
        State(Clock(born=0.0, rate=0), FEED).burst(1, 1, 0.0)


def test_a_waiting_feed_begins_when_it_is_asked_for() -> None:
    def made() -> State:
        feed = Feed(start=96.0, rate=50)
        return State(Clock(born=100.0, rate=50, first=200), feed, asleep=True)

    state = made()
    assert (state.following(500.0), state.to_json(500.0)["n"]) == (200, 199)
    state.wake(500.0)
    state.wake(600.0)
    assert (state.following(500.5), state.following(600.0)) == (225, 5_200)
    assert (state.feed.at(200), state.feed.at(225)) == (500.0, 500.5)
    burst = made()
    assert burst.burst(100, 100, 700.0) == 200
    assert (burst.following(701.0), burst.feed.at(300)) == (300, 701.0)
    assert State(Clock(born=100.0, rate=50), FEED).following(101.0) == 50


def test_a_status_says_how_far_it_is_and_who_asked() -> None:
    state = State(Clock(born=100.0, rate=0), FEED)
    state.sent(9, 10)
    state.sent(4, 5)
    state.record(RequestRecord(300.0, "me", None, 200))
    said = state.to_json(300.0)
    assert (said["n"], said["sent"], said["frames"]) == (9, 9, 15)
    assert said["requests"][0]["user_agent"] == "me"
    assert State(Clock(born=100.0, rate=10), FEED).to_json(100.0)["n"] == -1


def test_a_saved_position_goes_on_where_it_was_and_after_a_kill_beyond_it(tmp_path: Path) -> None:
    path = tmp_path / "position.json"
    position = SavedPosition(path, rate=50)
    assert position.first == 0
    position.reached(0)
    assert SavedPosition(path, rate=50).first == 5_000, (
        "killed now, it goes on beyond all that it may have sent"
    )
    written = path.stat().st_mtime_ns
    position.reached(4_999)
    assert path.stat().st_mtime_ns == written, "still ahead: nothing is written"
    position.reached(5_000)
    assert SavedPosition(path, rate=50).first == 10_000
    position.close(5_032)
    assert SavedPosition(path, rate=50).first == 5_032
    assert SavedPosition(None, rate=50).first == 0
