"""All ends are asked at once, and each is a row, whatever it does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from sluice.config import platform
from sluice.connection_check import check as checking
from sluice.connection_check.needs import Needs
from sluice.connection_check.rows import Row, documents, failures, table
from sluice.connection_check.run import AT_ONCE, End, look
from sluice.core.errors import Refused, Unreachable
from tests.unit.config.test_platform import PLATFORM


def end(name: str, ask: Callable[[list[Row]], None]) -> End:
    return End(Row("consumer", name, "there"), ask)


def nothing(rows: list[Row]) -> None:
    """It is well."""


def test_ends_that_stand_still_cost_their_time_once_and_show_what_was_found() -> None:
    for_ever = threading.Event()

    def hang(rows: list[Row]) -> None:
        rows[0].tls = "TLSv1.3"
        for_ever.wait()

    said: list[str] = []
    began = time.monotonic()
    rows = look([end("s3", hang), end("kafka", hang), end("registry", nothing)], said.append, seconds=0.3)
    assert time.monotonic() - began < 0.9
    for_ever.set()
    assert [row.tls for row in rows] == ["TLSv1.3", "TLSv1.3", ""]
    assert [bool(row.problems) for row in rows] == [True, True, False]
    assert "did not answer within 0.3 s" in rows[0].problems[0]
    assert said == [
        "1 of 3: consumer registry there",
        "2 of 3: consumer s3 there",
        "3 of 3: consumer kafka there",
    ]


def test_more_ends_than_are_asked_at_once_may_stand_still() -> None:
    """Each has its own time, and then its place is another's."""
    for_ever = threading.Event()
    many = AT_ONCE + 4

    def hang(rows: list[Row]) -> None:
        for_ever.wait()

    began = time.monotonic()
    hanging = [end("s3", hang) for _ in range(many)]
    rows = look([*hanging, end("kafka", nothing)], seconds=0.3)
    assert 0.6 <= time.monotonic() - began < 1.5
    for_ever.set()
    assert [len(row.problems) for row in rows] == [1] * many + [0]


def test_more_ends_than_are_asked_at_once_have_their_own_time() -> None:
    rows = look([end("s3", lambda _: time.sleep(0.2)) for _ in range(2 * AT_ONCE)], seconds=0.35)
    assert not [row for row in rows if row.problems]


def test_what_a_client_raises_is_a_line_of_its_end() -> None:
    def refuse(rows: list[Row]) -> None:
        raise Refused("the login is refused. Fix: correct it")

    def fail(rows: list[Row]) -> None:
        rows.append(Row("consumer", "kafka broker", "one"))
        raise ZeroDivisionError("by 0")

    def wait(rows: list[Row]) -> None:
        raise Unreachable("no answer from broker:9092 in 8 s")

    first, second, third, fourth = look([end("s3", refuse), end("kafka", fail), end("kafka", wait)])
    assert first.problems == ["the login is refused. Fix: correct it"]
    assert second.problems == ["not looked at: ZeroDivisionError: 'by 0'"]
    assert third.end == "kafka broker"
    assert fourth.problems == [
        "no answer from broker:9092 in 8 s. Fix: start it, or let this machine reach it"
    ]


def test_what_is_no_exception_is_a_problem_too() -> None:
    def panic(rows: list[Row]) -> None:
        raise SystemExit(3)

    (row,) = look([End(Row("consumer", "s3", "there"), panic)])
    assert row.problems == ["not looked at: SystemExit: '3'"]


def test_no_secret_is_shown_whatever_a_client_says() -> None:
    def leak(rows: list[Row]) -> None:
        rows[0].remarks.append("asked http://u:s%2Fcret-1@there")
        raise ValueError("Header 's/cret-1' is wrong")

    (row,) = look([end("s3", leak)], secrets=["s/cret-1", "the", ""])
    assert row.problems == ["not looked at: ValueError: \"Header '***' is wrong\""]
    assert row.remarks == ["asked http://u:***@there"]


def test_what_an_end_learns_is_not_shown_either() -> None:
    hidden: list[str] = []

    def leak(rows: list[Row]) -> None:
        hidden.extend(["secret", "secret-and-more"])
        raise ValueError("user secret-and-more and secret")

    (row,) = look([End(Row("consumer", "connection", "there"), leak, hidden)])
    assert row.problems == ["not looked at: ValueError: 'user *** and ***'"]


@pytest.mark.parametrize("place", ["made", "assigned"])
def test_no_login_in_an_address_is_shown(place: str) -> None:
    """The row is made with it, or gets it later."""
    address = "https://someone:s%2Fcret@feeds.example.com:8443/changes?token=abcdefgh&since=1#part"
    row = Row("producer", "feeds x", address if place == "made" else "")
    row.address = address
    texts = [table([row], 0), str(documents([row])), row.where, repr(row), *failures([row])]
    assert "https://feeds.example.com:8443/changes?token=***&since=***" in row.where
    assert not [text for text in texts for part in ("someone", "cret", "abcdefgh") if part in text]


@pytest.mark.parametrize(("role", "rows"), [("consumer", 1), ("airflow", 0)])
def test_a_proxy_that_a_jobs_jvm_cannot_go_through_is_a_row(
    role: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "https://user:proxy-secret@proxy.test")
    found = platform.parse(PLATFORM, "consumer.toml")
    found = replace(found, role=role, s3=replace(found.s3, endpoint="https://s3.test"))
    monkeypatch.setattr(checking, "ends_of", lambda *_: [])
    problems = failures(checking.check([role], lambda _: found, Needs([])))
    assert len(problems) == rows
    for problem in problems:
        assert "consumer proxy of jobs: HTTPS_PROXY names https://proxy.test for https://s3.test" in problem


def test_a_feeds_login_and_a_proxys_are_in_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy-user:proxy-secret@127.0.0.1:1")
    found = replace(
        platform.parse(PLATFORM, "consumer.toml"), feeds={"x": "https://u:feed-secret@there/?token=of-a-feed"}
    )

    def leak(rows: list[Row]) -> None:
        raise ValueError("feed-secret of-a-feed proxy-secret")

    monkeypatch.setattr(checking, "ends_of", lambda *_: [End(Row("producer", "feeds x", "there"), leak)])
    (row,) = checking.check(["producer"], lambda _: found, Needs([]))
    assert row.problems == ["not looked at: ValueError: '*** *** ***'"]
