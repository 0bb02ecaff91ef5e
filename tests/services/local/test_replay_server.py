"""The replay server over HTTP, read by the library that the producer uses."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

import httpx
import pytest
from httpx_sse import EventSource, ServerSentEvent, connect_sse

from local.replay.frames import sse_id
from tests.support.faulty_replay import FaultyReplay, frame, half

Start = Callable[..., FaultyReplay]
AGENT = {"User-Agent": "Sluice tests (sluice@example.org)"}
# For what must come; and so long nothing may come where nothing must: some rate_changes of the server.
DEADLINE, STILL = 60.0, 0.3


@pytest.fixture
def replay() -> Iterator[Start]:
    """Makes servers, and ends them."""
    made: list[FaultyReplay] = []

    def make(**options: Any) -> FaultyReplay:
        made.append(FaultyReplay(**options).__enter__())
        return made[-1]

    yield make
    for server in made:
        server.__exit__()


def read(url: str, count: int, position: str | None = None, query: str = "") -> list[ServerSentEvent]:
    """So many events, or as many as came before the answer was over."""
    headers = {**AGENT, **({"Last-Event-ID": position} if position is not None else {})}
    with httpx.Client(timeout=DEADLINE, trust_env=False) as client:  # noqa: SIM117
        with connect_sse(client, "GET", url + query, headers=headers) as source:
            assert source.response.status_code == 200, source.response.read()
            return list(islice(events(source), count))


def get(url: str, **headers: str) -> httpx.Response:
    return httpx.get(url, headers={**AGENT, **headers}, timeout=DEADLINE, trust_env=False)


class Reader:
    """Reads the feed in a thread until the answer is over: `data` is what has come."""

    def __init__(self, url: str) -> None:
        self.data = b""
        self._url = url
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        # The server drops the connection when the test is over.
        with (
            suppress(httpx.TransportError),
            httpx.stream("GET", self._url, headers=AGENT, timeout=DEADLINE, trust_env=False) as answer,
        ):
            for part in answer.iter_raw():
                with self._news:
                    self.data += part
                    self._news.notify_all()

    def waits_for(self, done: Callable[[bytes], bool], seconds: float = DEADLINE) -> bool:
        """Whether that is so in time of what has come."""
        with self._news:
            return self._news.wait_for(lambda: done(self.data), seconds)

    @property
    def is_connected(self) -> bool:
        return self._thread.is_alive()


def events(source: EventSource) -> Iterator[ServerSentEvent]:
    """Without those that have no data, which by the standard are none: the library gives them too."""
    return (event for event in source.iter_sse() if event.data)


def collect(source: EventSource, into: list[ServerSentEvent]) -> None:
    for event in events(source):
        into.append(event)


def test_everything_comes_once_and_in_order_with_its_position(replay: Start) -> None:
    server = replay(rate=0, total=500)
    got = read(server.url, 500)
    assert [event.data for event in got] == [server.payload(n) for n in range(500)]
    assert [event.id for event in got] == [sse_id(server.feed, n) for n in range(500)]
    assert {event.event for event in got} == {"message"}
    assert server.status()["n"] == 499


def test_a_client_goes_on_behind_its_position(replay: Start) -> None:
    server = replay(rate=0, total=100)
    position = read(server.url, 40)[-1].id
    rest = read(server.url, 60, position)
    assert [event.json()["meta"]["offset"] for event in rest] == list(range(40, 100))
    server.set_faults(repeat=3)
    again = read(server.url, 63, position)
    assert [event.json()["meta"]["offset"] for event in again] == list(range(37, 100))
    assert [request.last_event_id for request in server.requests] == [None, position, position]
    assert server.requests[0].user_agent == AGENT["User-Agent"]


def test_by_the_clock_only_what_is_new_comes_unless_it_is_asked_for(
    replay: Start,
) -> None:
    server = replay(rate=2_000.0)
    seen = read(server.url, 50)
    first = seen[0].json()["meta"]["offset"]
    assert [event.json()["meta"]["offset"] for event in seen] == list(range(first, first + 50))
    newest = server.status()["n"]
    assert read(server.url, 1)[0].json()["meta"]["offset"] > newest
    assert read(server.url, 1, query="?since=0")[0].json()["meta"]["offset"] == 0
    assert read(server.url, 1, position=seen[4].id)[0].json()["meta"]["offset"] == first + 5
    assert read(replay(rate=2_000.0, from_start=True).url, 1)[0].json()["meta"]["offset"] == 0


def test_the_connection_opens_with_a_retry_and_stays_alive(replay: Start) -> None:
    server = replay(rate=0, total=1, retry_ms=250, keep_alive_seconds=0.01)
    with httpx.stream("GET", server.url, headers=AGENT, timeout=DEADLINE, trust_env=False) as answer:
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        text = ""
        for part in answer.iter_text():
            text += part
            if text.count(": keep-alive\n\n") >= 2:
                break
    assert text.startswith("retry: 250\n:ok\n\nevent: message\n")


@pytest.mark.parametrize(
    ("cut", "ends"), [("end", True), ("half_end", True), ("drop", False), ("half", False), ("reset", False)]
)
def test_a_connection_is_cut_after_so_many_events(replay: Start, cut: str, ends: bool) -> None:
    server = replay(rate=0, total=100)
    server.set_faults(cut_every=7, cut=cut, cut_times=1)
    got: list[ServerSentEvent] = []
    with httpx.Client(timeout=DEADLINE, trust_env=False) as client:
        source = connect_sse(client, "GET", server.url, headers=AGENT)
        with source as open_source:
            if ends:
                collect(open_source, got)
            else:
                # Closed before the answer was over, or reset: the client can tell them apart.
                with pytest.raises(httpx.ReadError if cut == "reset" else httpx.RemoteProtocolError):
                    collect(open_source, got)
    # What is under way when a connection is reset may be lost.
    numbers = [event.json()["meta"]["offset"] for event in got]
    assert numbers == list(range(7)) if cut != "reset" else numbers == list(range(len(numbers)))
    position = got[-1].id if got else None
    rest = read(server.url, 100 - len(got), position)
    assert len(rest) == 100 - len(got), "once only"


def test_what_was_sent_before_a_cut_arrives_also_at_a_slow_reader(
    replay: Start,
) -> None:
    server = replay(rate=0)
    server.set_faults(cut_every=1_000, cut="drop")
    got = b""
    with socket.socket() as raw:
        # Next to nothing fits in between, so the server still holds a part when it is done.
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        raw.settimeout(DEADLINE)
        raw.connect(("127.0.0.1", server.port))
        raw.sendall(b"GET /v2/stream/recentchange HTTP/1.1\r\nHost: x\r\nUser-Agent: x\r\n\r\n")
        while part := raw.recv(4_096):
            got += part
    assert got.count(b"\nevent: message\n") == 1_000
    assert got.endswith(b"}\n\n\r\n"), "and its last chunk is whole"


def test_half_an_event_and_then_nothing(replay: Start) -> None:
    server = replay(rate=0, total=100, retry_ms=0, keep_alive_seconds=0.01)
    server.set_faults(cut_every=2, cut="hang")
    whole = [frame(server.feed, n, server.faults) for n in range(3)]
    expected = b":ok\n\n" + whole[0] + whole[1] + half(server.feed, 2, whole[2])
    reader = Reader(server.url)
    assert reader.waits_for(lambda data: len(data) >= len(expected))
    assert not reader.waits_for(lambda data: data != expected, STILL), "not even a comment"
    assert reader.is_connected


def test_half_an_event_is_never_a_whole_one(replay: Start) -> None:
    server = replay(rate=0)
    lengths = set()
    for n in range(500):
        whole = frame(server.feed, n, server.faults)
        part = half(server.feed, n, whole)
        assert whole.startswith(part)
        assert 0 < len(part) < len(whole)
        assert half(server.feed, n, b"ab") == b"a"
        lengths.add(len(part) * 10 // len(whole))
    assert lengths == set(range(10)), "it ends anywhere"


def test_requests_are_refused_so_often_and_say_when_to_come_again(
    replay: Start,
) -> None:
    server = replay(rate=0, total=5)
    server.set_faults(refuse=2, refuse_status=502, retry_after=7)
    answers = [get(server.url) for _ in range(2)]
    assert [(answer.status_code, answer.headers["retry-after"]) for answer in answers] == [(502, "7")] * 2
    assert len(read(server.url, 5)) == 5
    assert [request.status for request in server.requests] == [502, 502, 200]


def test_who_does_not_say_who_they_are_or_where_they_were_is_refused(
    replay: Start,
) -> None:
    server = replay(rate=0, total=5)
    unnamed, lost = get(server.url, **{"User-Agent": ""}), get(server.url, **{"Last-Event-ID": "[]"})
    assert (unnamed.status_code, lost.status_code) == (403, 400)
    assert get(f"{server.url}?since=x").status_code == 400


def test_silence_ends_by_itself_or_when_it_is_healed(replay: Start) -> None:
    server = replay(rate=0, total=5, retry_ms=0, keep_alive_seconds=0.01)
    server.set_faults(silence_seconds=3_600)
    reader = Reader(server.url)
    assert reader.waits_for(lambda data: data == b":ok\n\n")
    assert not reader.waits_for(lambda data: data != b":ok\n\n", STILL), "not even a comment"
    server.clear_faults()
    assert reader.waits_for(lambda data: data.count(b"event: message") == 5), "on the same connection"
    server.set_faults(silence_seconds=0.2)
    assert len(read(server.url, 5)) == 5


def test_a_slow_connection_sends_in_small_pieces(replay: Start) -> None:
    server = replay(rate=0, total=3)
    server.set_faults(bytes_per_second=20_000)
    pieces: list[int] = []
    with httpx.stream("GET", server.url, headers=AGENT, timeout=DEADLINE, trust_env=False) as answer:
        size = 0
        for piece in answer.iter_raw():
            pieces.append(len(piece))
            size += len(piece)
            if size > 2_500:
                break
    assert max(pieces) <= 3_000
    assert len(pieces) >= 3


def test_status_over_http_and_anomalies_at_their_turn(replay: Start) -> None:
    server = replay(rate=0, total=5)
    server.set_faults(anomaly_every=2, anomalies=("legacy",))
    base = server.url.removesuffix("/v2/stream/recentchange")
    with httpx.Client(base_url=base, timeout=DEADLINE, trust_env=False) as client:
        assert client.get("/status").json()["total"] == 5
        assert client.get("/v2/stream/other").status_code == 404
        assert client.post("/burst", content='{"events": 1, "rate": 1}').status_code == 415
        assert client.post("/burst", json=[1]).status_code == 400
    assert [server.anomaly(n) for n in range(4)] == [None, "legacy", None, "legacy"]
    assert [event.data for event in read(server.url, 5)] == [server.payload(n) for n in range(5)]


def test_a_burst_is_seen_by_who_is_connected(replay: Start) -> None:
    server = replay(rate=0.001)
    base = server.url.removesuffix("/v2/stream/recentchange")
    with (
        httpx.Client(timeout=DEADLINE, trust_env=False) as client,
        connect_sse(client, "GET", server.url, headers=AGENT) as source,
    ):
        answer = client.post(f"{base}/burst", json={"events": 200, "rate": 2_000})
        assert answer.json() == {"n": 0}
        got = list(islice(events(source), 200))
    assert [event.data for event in got] == [server.payload(n) for n in range(200)]
    for wrong in ({"events": 5}, {"events": 0, "rate": 1}, {"events": "x", "rate": 1}):
        refused = httpx.post(f"{base}/burst", json=wrong, timeout=DEADLINE, trust_env=False)
        assert refused.status_code == 400


def test_a_waiting_server_waits_for_its_first_client(replay: Start) -> None:
    server = replay(rate=2_000.0, wait_for_client=True, from_start=True)
    refused = get(server.url, **{"Last-Event-ID": "[]"})
    assert (refused.status_code, server.status()["n"]) == (400, -1)
    assert read(server.url, 50)[-1].json()["meta"]["offset"] == 49
    assert server.status()["n"] >= 49


def test_a_position_of_another_feed_beyond_the_end_gets_what_is_new(
    replay: Start,
) -> None:
    server = replay(rate=2_000.0)
    beyond = sse_id(server.feed, 2_015_394_065)
    got = read(server.url, 5, position=beyond)
    assert got[0].json()["meta"]["offset"] < 1_000_000


def test_two_clients_at_once_and_an_end_that_waits_for_none(replay: Start) -> None:
    server = replay(rate=0, total=2_000)
    counts: list[int] = []
    threads = [threading.Thread(target=lambda: counts.append(len(read(server.url, 2_000)))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [2_000, 2_000]
    with httpx.stream("GET", server.url, headers=AGENT, timeout=DEADLINE, trust_env=False) as answer:
        server.__exit__()
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
            for _ in answer.iter_raw():
                pass


def test_a_port_that_is_taken(replay: Start) -> None:
    server = replay(rate=0)
    with pytest.raises(OSError) as caught, FaultyReplay(rate=0, port=server.port):  # noqa: PT011  its number
        pass
    assert caught.value.errno == errno.EADDRINUSE
