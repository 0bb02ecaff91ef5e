"""All ends are asked at once, and each is a row, whatever it does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from sluice.connection_check.rows import Row
from sluice.connection_check.run import AT_ONCE, End, look
from sluice.core.errors import Refused


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
        "1 of 3: consumer s3 there",
        "2 of 3: consumer kafka there",
        "3 of 3: consumer registry there",
    ]


def test_more_ends_than_are_asked_at_once_have_their_own_time() -> None:
    rows = look([end("s3", lambda _: time.sleep(0.2)) for _ in range(2 * AT_ONCE)], seconds=0.35)
    assert not [row for row in rows if row.problems]


def test_what_a_client_raises_is_a_line_of_its_end() -> None:
    def refuse(rows: list[Row]) -> None:
        raise Refused("the login is refused. Fix: correct it")

    def fail(rows: list[Row]) -> None:
        rows.append(Row("consumer", "kafka broker", "one"))
        raise ZeroDivisionError("by 0")

    first, second, third = look([end("s3", refuse), end("kafka", fail)])
    assert first.problems == ["the login is refused. Fix: correct it"]
    assert second.problems == ["not looked at: ZeroDivisionError: 'by 0'"]
    assert third.end == "kafka broker"


def test_no_secret_is_shown_whatever_a_client_says() -> None:
    def leak(rows: list[Row]) -> None:
        rows[0].remarks.append("asked http://u:s%2Fcret-1@there")
        raise ValueError("Header 's/cret-1' is wrong")

    (row,) = look([end("s3", leak)], secrets=["s/cret-1", "the", ""])
    assert row.problems == ["not looked at: ValueError: \"Header '***' is wrong\""]
    assert row.remarks == ["asked http://u:***@there"]
