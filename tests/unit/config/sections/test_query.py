"""What a query declares, and which windows hold a moment."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest

from sluice.config import streams
from sluice.config.reading.toml import ConfigError
from sluice.config.sections.page import Kind, Page, Words
from sluice.config.sections.query import Query, TimeWindow, check, result_types
from sluice.config.sections.sink import Sink
from sluice.core.queries.result import key_text
from tests.support.raising import raising

TEN = TimeWindow(10, 5, 2)
TABLE = Sink("jdbc", connection="counts", table="hits")
TOPIC = Sink("kafka", topic="hits", partitions=2)
RESULTS = Sink("iceberg", table="results.hits")
QUERY = Query([TABLE, TOPIC], ["zipcode"], {"hits": "count"}, "hittime", TEN, 10)
PAGE = Page("Hits", "zipcode", Words("zipcode", "zipcodes"), "hits")
KIND = Kind("mobile", Words("line", "lines"), Words("mobile", "mobiles"))
# What a query declares so that the page fits it, and its page with kinds.
PAGED: dict[str, Any] = {"page": PAGE, "sinks": [RESULTS]}
BY_KIND: dict[str, Any] = {"sinks": [RESULTS], "group_by": ["mobile", "zipcode"]}


def seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


@pytest.mark.parametrize(
    ("at", "starts"),
    [
        ("2026-03-01T10:02:00", ["2026-03-01T09:57:00", "2026-03-01T10:02:00"]),
        ("2026-03-01T10:01:59", ["2026-03-01T09:52:00", "2026-03-01T09:57:00"]),
        ("2026-03-01T10:06:59", ["2026-03-01T09:57:00", "2026-03-01T10:02:00"]),
        ("2026-03-01T10:07:00", ["2026-03-01T10:02:00", "2026-03-01T10:07:00"]),
        ("2026-03-02T00:00:00", ["2026-03-01T23:52:00", "2026-03-01T23:57:00"]),
        # In New York the clock goes from 2 to 3 at 7 UTC, and in Berlin from 2 to 3 at 1 UTC: no hole here.
        ("2026-03-08T07:00:00", ["2026-03-08T06:52:00", "2026-03-08T06:57:00"]),
        ("2026-03-29T01:00:00", ["2026-03-29T00:52:00", "2026-03-29T00:57:00"]),
        ("1969-12-31T23:59:59", ["1969-12-31T23:52:00", "1969-12-31T23:57:00"]),
    ],
)
def test_a_window_holds_its_beginning_and_not_its_end(at: str, starts: list[str]) -> None:
    assert TEN.starts(seconds(at)) == [seconds(start) for start in starts]


def test_windows_side_by_side_hold_a_moment_once() -> None:
    assert TimeWindow(1440, 1440).starts(seconds("2026-03-01T23:59:59")) == [seconds("2026-03-01T00:00:00")]


def test_a_window_that_its_step_does_not_divide_is_in_as_many_as_hold_it() -> None:
    assert [len(TimeWindow(10, 4).starts(at)) for at in (0, 60, 120, 180)] == [3, 3, 2, 2]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"group_by": []}, "group_by = []"),
        ({"group_by": ["ZIP"]}, "'ZIP'"),
        ({"aggregates": {"hits": "sum"}}, "hits = 'sum'"),
        ({"aggregates": {"version": "count"}}, "'version'"),
        ({"mode": "often"}, "'often'"),
        ({"mode": "append"}, "append"),
        ({"aggregates": {}}, "append"),
        ({"mode": "complete"}, "'complete'"),
        ({"event_time": ""}, "without event_time"),
        ({"watermark_minutes": 0}, "watermark_minutes is 0"),
        ({"window": None}, "watermark_minutes without a window"),
        ({"window": TimeWindow(10, 0)}, "slide_minutes is 0; it must be at least 1"),
        (
            {"window": TimeWindow(10, 11)},
            "would be in none. Fix: write 1 to 10",
        ),
        ({"window": TimeWindow(10, 7)}, "slide_minutes is 7"),
        ({"window": TimeWindow(10, 5, 5)}, "offset_minutes is 5"),
        ({"trigger_seconds": 0}, "trigger_seconds is 0"),
        ({"sinks": []}, "sinks = []"),
        ({"sinks": [Sink("hive")]}, "'hive'"),
        ({"sinks": [Sink("jdbc", table="hits")]}, "jdbc needs connection"),
        ({"sinks": [replace(TOPIC, table="hits")]}, "kafka has no table"),
        ({"sinks": [replace(TABLE, table="drop table")]}, "'drop table'"),
        ({"sinks": [replace(TOPIC, topic="a b")]}, "topic 'a b'"),
        ({"sinks": [replace(TOPIC, partitions=-1)]}, "partitions is -1"),
        ({"sinks": [Sink("files", prefix="hits/")]}, "write append for files"),
        ({"sinks": [Sink("iceberg")]}, "iceberg needs table"),
        ({"sinks": [Sink("iceberg", table="hits")]}, "'hits'"),
        (
            {"sinks": [RESULTS], "window": None, "watermark_minutes": 0, "event_time": ""},
            "a sink of kind iceberg without a window",
        ),
        ({"where": {"isp": []}}, "where isp"),
        ({"where": {"Isp": ["a"]}}, "'Isp'"),
        ({"page": PAGE}, "page 'Hits' without a table"),
        (PAGED | {"group_by": ["isp"]}, "columns zipcode, and group_by is isp. Fix: make"),
        (PAGED | {"group_by": ["zipcode", "isp"]}, "group_by is zipcode, isp. Fix: make"),
        (PAGED | {"page": replace(PAGE, kind=KIND)}, "columns zipcode, mobile, and group_by is zipcode"),
        (PAGED | {"aggregates": {"users": "distinct user", "hits": "count"}}, "put one that is count first"),
        (PAGED | {"page": replace(PAGE, title="x" * 101)}, "page title 'xx"),
        (PAGED | {"page": replace(PAGE, counted=" ")}, "page counted ' '. Fix: use 1 to 30"),
        (PAGED | {"page": replace(PAGE, ranked="x" * 31)}, "page ranked 'xx"),
        (PAGED | {"page": replace(PAGE, names=Words("zipcode", ""))}, "page names.many ''"),
        (BY_KIND | {"page": replace(PAGE, kind=replace(KIND, yes=Words("", "b")))}, "page kind.yes.one ''"),
        (BY_KIND | {"page": replace(PAGE, kind=replace(KIND, no=Words("a", "all")))}, "kinds all, mobiles"),
        (BY_KIND | {"page": replace(PAGE, kind=replace(KIND, no=KIND.yes))}, "kinds mobiles, mobiles"),
        ({"sinks": [TOPIC, TOPIC]}, "one of them is there twice"),
        ({"sinks": [TABLE, replace(TABLE, table="other")]}, "two sinks in one database"),
    ],
)
def test_what_is_wrong_is_named_with_its_fix(changes: dict[str, Any], named: str) -> None:
    with raising(ConfigError, "stream.toml", "query windows", named):
        check("windows", replace(QUERY, **changes), "stream.toml")


def test_a_page_is_of_a_name_and_perhaps_a_kind() -> None:
    check("windows", replace(QUERY, **PAGED), "stream.toml")
    assert (PAGE.columns, PAGE.kinds, PAGE.choices) == (["zipcode"], [], {"all": None})
    page = replace(PAGE, kind=KIND)
    check("windows", replace(QUERY, **BY_KIND, page=page), "stream.toml")
    assert (page.columns, page.kinds) == (["zipcode", "mobile"], [KIND.no, KIND.yes])
    assert page.choices == {"all": None, "lines": False, "mobiles": True}


def test_a_kind_is_a_boolean() -> None:
    columns = {"zipcode": "string", "mobile": "boolean", "hittime": "timestamp"}
    query = replace(QUERY, **BY_KIND, page=replace(PAGE, kind=KIND))
    assert result_types("windows", query, columns, "stream.toml")["mobile"] == "boolean"
    with raising(ConfigError, "query windows", "page kind 'mobile' is a string. Fix: name a boolean column"):
        result_types("windows", query, columns | {"mobile": "string"}, "stream.toml")


@pytest.mark.parametrize("prefix", ["/hits/", "hits"])
def test_a_prefix_is_a_folder(prefix: str) -> None:
    rows = Query([Sink("files", prefix=prefix)], ["zipcode"], mode="append")
    with raising(ConfigError, "query rows", repr(prefix)):
        check("rows", rows, "stream.toml")


@pytest.mark.parametrize(
    ("own", "others", "sink"),
    [
        (
            "isp-hits-windows",
            "isp-hits-zipcodes",
            "zipcodes and windows both write to kafka isp-hits-zipcodes",
        ),
        ("isp_hits_audience", "isp_hits_windows", "windows and audience both write to jdbc isp_hits_windows"),
    ],
)
def test_two_queries_never_write_to_one_place(own: str, others: str, sink: str) -> None:
    """Each would remove what the other wrote."""
    text = (streams.load("isp_hits").folder / "stream.toml").read_text()
    assert streams.parse(text, "stream.toml")
    with raising(ConfigError, "stream.toml", sink):
        streams.parse(text.replace(f'"{own}"', f'"{others}"'), "stream.toml")


def test_a_result_has_keys_measures_and_a_version() -> None:
    columns = {"zipcode": "string", "hittime": "timestamp", "isp": "string"}
    query = replace(QUERY, aggregates={"hits": "count", "isps": "distinct isp"})
    assert result_types("windows", query, columns, "stream.toml") == {
        "zipcode": "string",
        "window_start": "timestamp",
        "hits": "bigint",
        "isps": "bigint",
        "version": "bigint",
    }
    chosen = replace(QUERY, where={"isp": ["a"]})
    assert result_types("windows", chosen, columns, "stream.toml").keys() == {
        *("zipcode", "window_start", "hits", "version")
    }
    with raising(ConfigError, "query windows", "'isp'", "bigint"):
        result_types("windows", chosen, columns | {"isp": "bigint"}, "stream.toml")
    with raising(ConfigError, "query windows", "'isp'", "zipcode, hittime"):
        result_types("windows", query, {"zipcode": "string", "hittime": "timestamp"}, "stream.toml")


def test_what_has_no_text_of_its_own_is_no_key() -> None:
    columns = {"zipcode": "timestamp", "hittime": "timestamp"}
    with raising(ConfigError, "'zipcode'", "timestamp"):
        result_types("windows", QUERY, columns, "stream.toml")


def test_a_key_is_one_text_whatever_its_parts_hold() -> None:
    berlin = datetime(2026, 3, 1, 11, 2, tzinfo=timezone(timedelta(hours=1)))
    assert key_text(["10115", berlin]) == key_text(["10115", datetime(2026, 3, 1, 10, 2)])  # noqa: DTZ001
    assert key_text(["10115", berlin]) == "10115|2026-03-01T10:02:00Z"
    assert key_text([7, date(2026, 3, 1)]) == "7|2026-03-01"
    assert key_text(["a|b", "c"]) != key_text(["a", "b|c"])
    assert key_text(["a\\", "b"]) != key_text(["a\\|b"])
    assert len({key_text([value]) for value in (None, "None", "\\N", "")}) == 4


def test_the_shipped_queries_are_of_the_streams_columns() -> None:
    for name in streams.names():
        spec = streams.load(name)
        for query in spec.queries:
            assert set(spec.queries[query].keys) <= set(spec.result_types(query))
