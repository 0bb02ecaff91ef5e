"""Frames as a server may send them, in pieces of every size."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from spark_jobs.common.feed import client
from spark_jobs.common.feed.client import FeedError, Frame, frames, is_valid_position
from tests.support.raising import raising

HEADERS = {"Content-Type": "text/event-stream"}


class Wire(httpx.SyncByteStream):
    """The bytes of a body, so many at a time; then the connection breaks, or the answer ends well."""

    def __init__(self, body: bytes, size: int, broken: bool = False) -> None:
        self.body, self.size, self.broken = body, size, broken

    def __iter__(self) -> Iterator[bytes]:
        for begin in range(0, len(self.body), self.size):
            yield self.body[begin : begin + self.size]
        if self.broken:
            raise httpx.RemoteProtocolError("cut")


def read(body: bytes, size: int = 1 << 20, headers: dict[str, str] = HEADERS) -> list[Frame]:
    response = httpx.Response(200, headers=headers, stream=Wire(body, size))
    return list(frames(response, lambda: None))


def message(data: str, position: str = "", event: str = "message", retry: float | None = None) -> Frame:
    return Frame(event, data, position, retry)


@pytest.mark.parametrize("size", [1, 2, 7, 1 << 20])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_the_format_in_every_line_end_and_piece(size: int, end: str) -> None:
    lines = [": comment", "event: message", "id: 1", "data: {", "data:  é", "data", "data: }", ""]
    lines += [":", "", "data:no space", "nonsense: x", "", "id: 2", "data: b", "retry: 250", ""]
    assert read(end.join([*lines, ""]).encode(), size) == [
        message("{\n é\n\n}", "1"),
        message("no space", "1"),
        message("b", "2", retry=0.25),
    ]


def test_an_event_that_is_cut_off_is_none() -> None:
    assert read(b"data: a\n\ndata: b\n") == [message("a")]
    assert read(b"data: a\n\ndata: b") == [message("a")]
    assert read(b"data: a\n\ndata: b\r\n\r") == [message("a"), message("b")]


def test_what_was_whole_before_a_connection_broke_counts() -> None:
    wire = Wire(b'data: a\n\ndata: {"b', 3, broken=True)
    arriving = frames(httpx.Response(200, headers=HEADERS, stream=wire), lambda: None)
    assert next(arriving) == message("a")
    with pytest.raises(httpx.RemoteProtocolError):
        next(arriving)


def test_a_pause_that_is_asked_for_needs_no_event() -> None:
    assert read(b"retry: 5000\n\n") == [message("", retry=5.0)]
    assert read(b"retry: soon\n\nretry: -1\n\nretry: 99999999999\n\n") == [
        message(""),
        message(""),
    ]


def test_it_is_utf8_whatever_the_header_says_with_or_without_a_mark() -> None:
    latin = {"Content-Type": "text/event-stream; charset=iso-8859-1"}
    assert read(b"\xef\xbb\xbfid: \xc3\xa9\ndata: \xc3\xa9\xff\n\n", 1, latin) == [message("é\ufffd", "é")]


def test_other_answers_are_no_feed() -> None:
    with raising(httpx.TransportError, "text/html"):
        read(b"<html>", headers={"Content-Type": "text/html"})


def test_a_frame_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_CHARACTERS", 1000)
    long = b"data: " + b"x" * 900 + b"\n\n"
    assert len(read(long * 5, 100)) == 5
    with raising(FeedError, 1000):
        read(b"data: x\n" * 200, 100)


def test_every_piece_is_a_sign_of_life() -> None:
    heard: list[None] = []
    response = httpx.Response(200, headers=HEADERS, stream=Wire(b":ok\n\n" * 4, 5))
    assert not list(frames(response, lambda: heard.append(None)))
    assert len(heard) == 4


@pytest.mark.parametrize(
    ("position", "can"),
    [
        ("17", True),
        ('[{"topic":"eqiad","timestamp":1}]', True),
        ("é", True),
        ("", False),
        (" 17", False),
        ("1\x017", False),
        ("1\x7f", False),
        ("x" * 4097, False),
        ("é" * 2049, False),
    ],
)
def test_a_position_must_fit_into_a_header(position: str, can: bool) -> None:
    assert is_valid_position(position) is can
