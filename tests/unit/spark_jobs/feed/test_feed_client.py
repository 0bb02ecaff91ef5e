"""The client over connections that are scripted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import httpx
import pytest

from sluice.config.reading.toml import ConfigError
from sluice.config.sections.feed import Feed
from spark_jobs.common.feed.client import Activity, Client
from spark_jobs.common.feed.redirects import MAX_REDIRECTS
from tests.support.raising import raising

DECLARED = Feed("http://feed.test/stream", "Sluice/test (who@example.org)", "id", "events:read")
Answer = httpx.Response | Exception
FEED = {"Content-Type": "text/event-stream"}


@pytest.fixture(autouse=True)
def _full_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.common.feed.client.random.random", lambda: 1.0)


class Body(httpx.SyncByteStream):
    def __init__(self, text: str, error: Exception | None) -> None:
        self.text, self.error = text, error

    def __iter__(self) -> Iterator[bytes]:
        yield self.text.encode()
        if self.error is not None:
            raise self.error


def feed(text: str, error: Exception | None = None) -> httpx.Response:
    return httpx.Response(200, headers=FEED, stream=Body(text, error))


class Stop(threading.Event):
    """Lets the pauses pass at once, and keeps them with what was wrong before each."""

    def __init__(self, activity: Activity) -> None:
        super().__init__()
        self.activity = activity
        self.pauses: list[float] = []
        self.errors: list[str] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.pauses.append(timeout)
        self.errors.append(self.activity.error)
        return self.is_set()


class StreamUnderTest:
    """Answers as it is told, and keeps what it was asked; where it has no answer left it tells the client to
    stop."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[httpx.Request] = []
        self.activity = Activity()
        self.stop = Stop(self.activity)
        self.pauses = self.stop.pauses

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        if not self.answers:
            self.stop.set()
            return feed("")
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def client(
        self,
        rewind: Callable[[str], str] = lambda position: position,
        url: str = "http://feed.test/stream",
        redirects: tuple[str, ...] = (),
    ) -> Client:
        return Client(
            url,
            replace(DECLARED, allow_redirects_to=list(redirects)),
            rewind,
            self.activity,
            self.stop,
            transport=httpx.MockTransport(self._answer),
        )

    def read(self, position: str | None = None) -> list[tuple[str, str]]:
        return [(frame.data, frame.position) for frame in self.client().events(position)]

    @property
    def resumed(self) -> list[str | None]:
        return [request.headers.get("last-event-id") for request in self.asked]


def test_it_says_who_asks_and_from_where() -> None:
    site = StreamUnderTest()
    site.read("p0")
    (request,) = site.asked
    assert request.headers["user-agent"] == "Sluice/test (who@example.org)"
    assert request.headers["accept"] == "text/event-stream"
    assert request.headers["last-event-id"] == "p0"
    assert request.headers["accept-encoding"] == "identity"


def test_each_connection_goes_on_where_the_one_before_ended() -> None:
    cut = httpx.RemoteProtocolError("cut")
    site = StreamUnderTest(
        feed("id: 1\ndata: a\n\nid: 2\ndata: b\n\nid: 3\ndata: half", cut),
        feed("", httpx.ReadTimeout("silence")),
        feed("id: 3\ndata: c\n\n"),
    )
    assert site.read() == [("a", "1"), ("b", "2"), ("c", "3")]
    assert site.resumed == [None, "2", "2", "3"]


def test_an_event_without_an_id_has_the_position_before_it_over_connections_too() -> None:
    site = StreamUnderTest(feed("data: a\n\nid: 1\ndata: b\n\n"), feed("data: c\n\n"))
    assert site.read("p0") == [("a", "p0"), ("b", "1"), ("c", "1")]
    assert StreamUnderTest(feed("data: a\n\n")).read() == [("a", "")]


def test_an_id_that_no_header_can_carry_is_no_position() -> None:
    site = StreamUnderTest(feed("id: 1\ndata: a\n\nid: \x01\ndata: b\n\nid:\ndata: c\n\n"))
    assert site.read() == [("a", "1"), ("b", "1"), ("c", "1")]
    assert site.resumed == [None, "1"]


def test_it_asks_for_the_position_that_the_stream_wants() -> None:
    site = StreamUnderTest(feed("id: 7\ndata: a\n\n"))
    frames = list(site.client(rewind=lambda position: f"{int(position) - 3}").events("5"))
    assert site.resumed == ["2", "4"]
    assert [frame.position for frame in frames] == ["7"], "what it has is told as it was"


def test_the_pauses_grow_until_an_event_comes() -> None:
    down = httpx.ConnectError("refused")
    site = StreamUnderTest(down, down, down, feed("data: a\n\n"), down)
    site.read()
    assert site.pauses[:5] == [1, 2, 4, 1, 2]


def test_a_connection_that_brings_no_event_is_a_failure() -> None:
    site = StreamUnderTest(feed(":ok\n\n"), feed(":ok\n\n"), feed("retry: 100\n\n"))
    site.read()
    assert site.pauses[:3] == [1, 2, 4.1]


def test_the_servers_wish_is_kept_until_it_says_another() -> None:
    down = httpx.ConnectError("refused")
    site = StreamUnderTest(feed("retry: 3000\ndata: a\n\n"), down, feed("retry: 0\ndata: b\n\n"))
    site.read()
    assert site.pauses[:3] == [4, 5, 1]


def test_a_refusal_is_waited_out_as_long_as_it_says() -> None:
    site = StreamUnderTest(
        httpx.Response(503, headers={"Retry-After": "20"}, text="over\n capacity " + "x" * 1000),
        httpx.Response(429),
        httpx.Response(204),
        feed("data: a\n\n"),
    )
    assert site.read("p") == [("a", "p")]
    assert site.pauses[:3] == [21, 2, 4]
    assert site.resumed == ["p", "p", "p", "p", "p"]
    assert [error[:3] for error in site.stop.errors[:3]] == ["503", "429", "204"]
    assert "over capacity xxx" in site.stop.errors[0]
    assert len(site.stop.errors[0]) < 400, "not all of what it says"


def moved(to: str) -> httpx.Response:
    return httpx.Response(301, headers={b"Location": to.encode()})


def test_a_declared_redirect_is_followed_with_the_position() -> None:
    site = StreamUnderTest(moved("https://Other.test/stream"), feed("data: a\n\n"))
    frames = list(site.client(redirects=("other.TEST",)).events("p"))
    assert [frame.data for frame in frames] == ["a"]
    assert str(site.asked[1].url) == "https://other.test/stream"
    assert site.resumed[:2] == ["p", "p"]


@pytest.mark.parametrize(
    ("url", "to"),
    [
        ("http://feed.test/stream", "/elsewhere"),
        ("http://feed.test/stream", "https://feed.test/stream"),
        ("https://Feed.test/stream", "https://feed.test:8443/stream"),
    ],
)
def test_the_feed_s_own_host_may_redirect_to_itself(url: str, to: str) -> None:
    site = StreamUnderTest(moved(to), feed("data: a\n\n"))
    assert [frame.data for frame in site.client(url=url).events("p")] == ["a"]
    assert site.asked[1].url == httpx.URL(url).join(to)


def test_a_host_with_other_letters_is_declared_as_the_message_says() -> None:
    to = "https://b\xfccher.example/"
    with raising(ConfigError, '["xn--bcher-kva.example"]'):
        list(StreamUnderTest(moved(to)).client().events("p"))
    site = StreamUnderTest(moved(to), feed("data: a\n\n"))
    frames = list(site.client(redirects=("xn--bcher-kva.example",)).events("p"))
    assert [frame.data for frame in frames] == ["a"]


@pytest.mark.parametrize("to", ["javascript:alert(1)", "mailto:x@y", "https://xn--a/", "http://[::1"])
def test_after_a_redirect_to_no_address_it_connects_again(to: str) -> None:
    site = StreamUnderTest(moved(to), feed("data: a\n\n"))
    assert site.read() == [("a", "")]
    assert len(site.pauses) == 2
    assert "RemoteProtocolError" in site.stop.errors[0]


@pytest.mark.parametrize(
    ("url", "to", "declared"),
    [
        # Another host, a part of a declared name, and encryption that ends on the way.
        ("http://feed.test/stream", "http://other.test/stream", ()),
        ("http://feed.test/stream", "http://a.feed.test/stream", ()),
        ("https://feed.test/stream", "https://evil.other.test/", ("other.test",)),
        ("https://feed.test/stream", "http://feed.test/stream", ()),
        ("https://feed.test/stream", "http://other.test/stream", ("other.test",)),
    ],
)
def test_another_redirect_ends_the_producer_and_is_not_tried_again(
    url: str, to: str, declared: tuple[str, ...]
) -> None:
    site = StreamUnderTest(moved(to), feed("data: forged\n\n"))
    with raising(
        ConfigError, "feed.test", f"to {httpx.URL(url).join(to).copy_with(path='/')}"[:-1], "[feed]"
    ):
        list(site.client(url=url, redirects=declared).events("p"))
    assert len(site.asked) == 1
    assert site.pauses == []


def test_a_later_redirect_is_checked_as_the_first_one_and_there_are_not_many() -> None:
    hops = [moved("https://a.test/"), moved("http://a.test/")]
    with raising(ConfigError, "https://a.test", "http://a.test"):
        list(StreamUnderTest(*hops).client(redirects=("a.test",)).events(None))
    site = StreamUnderTest(*[moved("/again") for _ in range(MAX_REDIRECTS + 1)])
    assert list(site.client().events(None)) == []
    assert str(MAX_REDIRECTS) in site.stop.errors[0]


def test_a_redirect_takes_no_password_along() -> None:
    site = StreamUnderTest(moved("http://other.test/"), feed("data: a\n\n"))
    list(site.client(url="http://me:secret@feed.test/stream", redirects=("other.test",)).events(None))
    assert "authorization" in site.asked[0].headers
    assert "authorization" not in site.asked[1].headers


def test_only_messages_are_events_and_an_error_ends_the_connection() -> None:
    site = StreamUnderTest(
        feed("id: 1\ndata: a\n\nevent: error\nid: 9\ndata: {}\n\nid: 10\ndata: never\n\n"),
        feed("event: other\nid: 2\ndata: x\n\nevent: message\nid: 3\ndata: c\n\n"),
    )
    assert site.read() == [("a", "1"), ("c", "3")]
    assert site.resumed == [None, "1", "3"], "an error is no place to resume from"
    assert site.pauses[0] == 1


def test_what_it_does_is_told() -> None:
    site = StreamUnderTest(httpx.ConnectError("no server"))
    site.read()
    assert site.activity.state()[0] == "connecting"
    assert "try 1" in site.activity.error
    assert "no server" in site.activity.error


def test_to_be_told_to_stop_ends_it() -> None:
    site = StreamUnderTest(feed("data: a\n\ndata: b\n\n"))
    events = site.client().events(None)
    assert next(events).data == "a"
    site.stop.set()
    assert list(events) == []
    site.client().cut()


def test_an_address_that_is_none_is_not_tried_again() -> None:
    with pytest.raises(httpx.InvalidURL):
        list(Client("http://feed.test:none/", DECLARED, str, Activity(), threading.Event()).events(None))
