"""What the wiki stream makes of an event: each column, and each reason why a record is none."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from sluice.config import streams
from sluice.config.schema import parse_ddl
from spark_jobs.common.lake.tables import declared
from spark_jobs.wiki_changes.transforms import FIELDS, PARAMS, changes

SPEC = streams.load("wiki_changes")
SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "wiki_changes" / "recentchange.jsonl"
# When the records came to Kafka: a minute after the event.
CAME = datetime(2026, 2, 26, 15, 50, tzinfo=UTC)
AT = int(CAME.timestamp()) - 60
EVENT: dict[str, Any] = {
    "$schema": "/mediawiki/recentchange/1.0.0",
    "meta": {
        "uri": "https://en.wikipedia.org/wiki/A",
        "request_id": "5e1f38ac-feb0-49ae-b45b-8d14536ea26c",
        "id": "63d9586d-899f-4d33-b8a7-52739781b3fc",
        "domain": "en.wikipedia.org",
        "stream": "mediawiki.recentchange",
        "dt": "2026-02-26T15:49:00.569Z",
        "topic": "codfw.mediawiki.recentchange",
        "partition": 0,
        "offset": 2015394065,
    },
    "id": 854700,
    "type": "edit",
    "namespace": 14,
    "title": "A",
    "title_url": "https://en.wikipedia.org/wiki/A",
    "comment": "edited",
    "timestamp": AT,
    "user": "Störfix",
    "bot": False,
    "notify_url": "https://en.wikipedia.org/w/index.php?diff=2&oldid=1",
    "minor": True,
    "patrolled": False,
    "length": {"old": 10, "new": 12},
    "revision": {"old": 1, "new": 2},
    "server_url": "https://en.wikipedia.org",
    "server_name": "en.wikipedia.org",
    "server_script_path": "/w",
    "wiki": "enwiki",
    "parsedcomment": "edited",
}
LEFT_OUT = object()
Decode = Callable[..., list[Row]]


@pytest.fixture
def decode(spark: SparkSession) -> Decode:
    def decoded(*bodies: str | bytes | None, came: datetime = CAME) -> list[Row]:
        """Decode each body, in their order: `record` and `reason`."""
        values = [body.encode() if isinstance(body, str) else body for body in bodies]
        rows = [(number, value, came) for number, value in enumerate(values)]
        frame = spark.createDataFrame(rows, "number int, value binary, _kafka_timestamp timestamp")
        return changes(frame, declared(SPEC)).orderBy("number").select("record", "reason").collect()

    return decoded


def body(**given: Any) -> str:
    """The event with other values; ``meta__id``: of ``meta.id``. LEFT_OUT: without that key."""
    event = json.loads(json.dumps(EVENT))
    for name, value in given.items():
        *outer, last = ("$schema" if name == "schema" else name).split("__")
        place = event[outer[0]] if outer else event
        if value is LEFT_OUT:
            del place[last]
        else:
            place[last] = value
    return json.dumps(event, ensure_ascii=False)


def test_every_column_of_the_schema_is_made_and_no_other() -> None:
    made = {*FIELDS, PARAMS, "change_timestamp_date"} - {"earlier_schema_uri"}
    assert made == set(parse_ddl(SPEC.schema_file.read_text()))


def test_an_event_becomes_a_row_with_clean_columns(decode: Decode) -> None:
    (row,) = decode(body())
    assert row["reason"] is None
    assert row["record"].asDict() == {
        "change_timestamp": datetime(2026, 2, 26, 15, 49),  # noqa: DTZ001
        "change_timestamp_date": date(2026, 2, 26),
        "event_id": "63d9586d-899f-4d33-b8a7-52739781b3fc",
        "event_timestamp": datetime(2026, 2, 26, 15, 49, 0, 569000),  # noqa: DTZ001
        "type": "edit",
        "user": "Störfix",
        "bot": False,
        "server_name": "en.wikipedia.org",
        "wiki": "enwiki",
        "title": "A",
        "title_url": "https://en.wikipedia.org/wiki/A",
        "namespace": 14,
        "comment": "edited",
        "length_old": 10,
        "length_new": 12,
        "revision_old": 1,
        "revision_new": 2,
        "minor": True,
        "patrolled": False,
        "change_id": 854700,
        "log_id": None,
        "log_type": None,
        "log_action": None,
        "log_params": None,
        "log_action_comment": None,
        "uri": "https://en.wikipedia.org/wiki/A",
        "domain": "en.wikipedia.org",
        "request_id": "5e1f38ac-feb0-49ae-b45b-8d14536ea26c",
        "server_url": "https://en.wikipedia.org",
        "server_script_path": "/w",
        "notify_url": "https://en.wikipedia.org/w/index.php?diff=2&oldid=1",
        "schema_uri": "/mediawiki/recentchange/1.0.0",
    }


def test_every_recorded_event_is_one(decode: Decode) -> None:
    lines = SAMPLE.read_text().splitlines()
    events = [json.loads(line) for line in lines]
    newest = datetime.fromtimestamp(max(event["timestamp"] for event in events), UTC)
    rows = decode(*lines, came=newest)
    assert [row["reason"] for row in rows] == [None] * len(lines)
    for event, row in zip(events, rows, strict=True):
        record = row["record"]
        assert record["event_id"] == event["meta"]["id"]
        assert record["change_timestamp"].replace(tzinfo=UTC).timestamp() == event["timestamp"]
        assert record["title"] == event["title"]
        assert record["length_new"] == event.get("length", {}).get("new")
        assert record["change_id"] == event.get("id")
        params = record[PARAMS]
        assert (None if params is None else json.loads(params)) == event.get(PARAMS)


def test_the_older_shape_names_its_schema_in_meta(decode: Decode) -> None:
    older = body(
        schema=LEFT_OUT,
        meta__schema_uri="mediawiki/recentchange/2",
        meta__dt="2026-02-26T15:49:00+00:00",
        meta__stream=LEFT_OUT,
        title_url=LEFT_OUT,
        notify_url=LEFT_OUT,
    )
    (row,) = decode(older)
    assert row["reason"] is None
    assert row["record"]["schema_uri"] == "mediawiki/recentchange/2"
    assert row["record"]["event_timestamp"] == datetime(2026, 2, 26, 15, 49)  # noqa: DTZ001
    assert row["record"]["title_url"] is None


def test_log_params_are_kept_as_json_whatever_they_are(decode: Decode) -> None:
    sent = [[], {}, [1, "2", None], {"b": {"c": [True]}, "a": "ä"}, "4::target", "", "[1]", 7, 1.5, False]
    rows = decode(*(body(log_params=params) for params in sent))
    assert [row["reason"] for row in rows] == [None] * len(sent)
    assert [json.loads(row["record"][PARAMS]) for row in rows] == sent


def test_a_field_may_be_null_or_left_out(decode: Decode) -> None:
    needed = {"meta__id", "timestamp", "server_name"}
    names = {path.replace(".", "__") for path, _ in FIELDS.values()} | {PARAMS}
    optional = sorted(names - needed - {"$schema", "meta__schema_uri", "log_id"} - {PARAMS})
    present = [n for n in optional if not n.startswith("log_")]
    nulls = decode(body(**dict.fromkeys(present)), body(**dict.fromkeys(present, LEFT_OUT)))
    assert [row["reason"] for row in nulls] == [None, None]
    assert nulls[0]["record"] == nulls[1]["record"]
    assert nulls[0]["record"]["user"] is None
    (row,) = decode(body(length=None, revision=None, log_params=None))
    assert row["reason"] is None
    assert row["record"]["length_old"] is None


TEXTS = sorted(path for path, kind in FIELDS.values() if kind.words == "a text")
NUMBERS = sorted(path for path, kind in FIELDS.values() if kind.words.startswith("a whole number"))
TRUTHS = sorted(path for path, kind in FIELDS.values() if kind.words == "true or false")


def wrong(path: str, value: Any) -> str:
    event = json.loads(body(log_id=1, log_type="a", log_action="b", log_action_comment="c"))
    outer, _, inner = path.partition(".")
    if inner:
        event[outer][inner] = value
    else:
        event[outer] = value
    return json.dumps(event)


@pytest.mark.parametrize(
    ("paths", "values", "words"),
    [
        (TEXTS, [5, -1.5e300, True, False, {"a": 1}, {}, ["a"], [[1]], [{}], [None], []], "is not a text"),
        (NUMBERS, ["5", "", 1.0, True, {}, [5], 2**63, -(2**63) - 1], "is not a whole number of "),
        (TRUTHS, ["true", 1, 0, {}, []], "is not true or false"),
    ],
)
def test_a_field_of_another_type_is_named(
    decode: Decode, paths: list[str], values: list[Any], words: str
) -> None:
    cases = [(path, value) for path in paths for value in values]
    for (path, value), row in zip(cases, decode(*(wrong(*case) for case in cases)), strict=True):
        assert (row["reason"] or "").startswith(f"{path} {words}"), (path, value, row["reason"])


def test_texts_that_look_like_other_json_are_texts(decode: Decode) -> None:
    texts = ["2026", "-1.5e3", "true", "false", "null", "{}", '{"a": 1}', "[]", "[[1]]", '["a"]', "[[A]]"]
    rows = decode(*(body(title=text, user=text, comment=text) for text in texts))
    assert [(row["reason"], row["record"]["title"]) for row in rows] == [(None, text) for text in texts]


WHOLE = body()
REASONS: list[tuple[str | bytes | None, str]] = [
    (None, "the record has no value (a tombstone)"),
    (b"\xff" + WHOLE.encode(), "not UTF-8"),
    (WHOLE.encode("latin-1"), "not UTF-8"),
    ("", "not JSON: it is empty"),
    ("not json", "not JSON"),
    (WHOLE[:-1], "not JSON"),
    (WHOLE[: len(WHOLE) // 2], "not JSON"),
    (WHOLE + " x", "not JSON"),
    (WHOLE + "\n" + WHOLE, "not JSON"),
    (WHOLE.replace('"minor": true', '"minor": NaN'), "not JSON"),
    (WHOLE.replace('"', "'"), "not JSON"),
    ("\ufeff" + WHOLE, "not JSON"),
    (body(log_params="@").replace('"@"', "[" * 2000 + "]" * 2000), "not JSON"),
    ("null", "not a JSON object"),
    ("[]", "not a JSON object"),
    (f"[{WHOLE}]", "not a JSON object"),
    ('"text"', "not a JSON object"),
    ("5", "not a JSON object"),
    ("{}", "no meta.id"),
    (body(meta="text"), "meta is not an object"),
    (body(meta=[1]), "meta is not an object"),
    (body(length=5), "length is not an object"),
    (body(revision=[1, 2]), "revision is not an object"),
    (body(namespace=2**31), "namespace is not a whole number of 32 bits"),
    (body(meta=LEFT_OUT), "no meta.id"),
    (body(meta__id=None), "no meta.id"),
    (body(meta__id=""), "no meta.id"),
    (body(timestamp=None), "no timestamp"),
    (body(timestamp=LEFT_OUT), "no timestamp"),
    (body(timestamp=0), "timestamp is before 2001"),
    (body(timestamp=-1), "timestamp is before 2001"),
    (body(timestamp=978_307_199), "timestamp is before 2001"),
    (body(timestamp=AT * 1000), "timestamp is more than a day after the record came to Kafka"),
    (body(timestamp=2**63 - 1), "timestamp is more than a day after the record came to Kafka"),
    (body(timestamp=AT + 60 + 86_401), "timestamp is more than a day after the record came to Kafka"),
    (body(timestamp=10**30), "timestamp is not a whole number of 64 bits"),
    (body(meta__dt="yesterday"), "meta.dt is not a time"),
    (body(meta__dt="2026-02-26"), "meta.dt is not a time"),
    (body(meta__dt="2026-13-26T15:49:00Z"), "meta.dt is not a time"),
    (body(server_name=None), "no server_name"),
    (body(server_name=LEFT_OUT), "no server_name"),
    (body(server_name=""), "no server_name"),
    (body(server_name="a" * 241), "server_name is too long"),
    (body(server_name="ä" * 41), "server_name is too long"),
    (
        body(log_params={"b": 1}).replace('"b": 1', '"b": 1, "b": 2'),
        "log_params has a key twice, or is too large",
    ),
]


@pytest.mark.parametrize("spoiled", [False, True])
def test_each_reason_is_said(decode: Decode, spoiled: bool) -> None:
    """With a text that looks like a number too, so that the second look changes nothing."""
    cases = [
        (
            value.replace('"title": "A"', '"title": "5"') if spoiled and isinstance(value, str) else value,
            reason,
        )
        for value, reason in REASONS
    ]
    rows = decode(*(value for value, _ in cases))
    assert [row["reason"] for row in rows] == [reason for _, reason in cases]


def test_what_is_just_good_enough_is_an_event(decode: Decode) -> None:
    bodies = [
        body(timestamp=978_307_200),
        body(timestamp=AT + 60 + 86_400),
        body(server_name="a" * 240),
        body(server_name="ä" * 40),
        body(namespace=-(2**31), id=2**63 - 1),
        f"  {WHOLE}\r\n",
    ]
    assert [row["reason"] for row in decode(*bodies)] == [None] * len(bodies)


def test_odd_texts_come_through_as_they_are(decode: Decode) -> None:
    odd = [
        "\u202eabc\u202c",
        "<img src=x onerror=alert(1)>",
        "👩‍👩‍👧",
        "a\u0000b",
        "  ",
        "x" * 1_000_000,
        "e\u0301",
    ]
    rows = decode(*(body(user=text, comment=text) for text in odd))
    assert [(row["reason"], row["record"]["user"], row["record"]["comment"]) for row in rows] == [
        (None, text, text) for text in odd
    ]


def test_of_a_key_that_is_there_twice_the_last_counts(decode: Decode) -> None:
    twice = WHOLE.replace('"user":', '"user": "first", "user":').replace('"old": 10', '"old": 9, "old": 10')
    (row,) = decode(twice)
    assert (row["reason"], row["record"]["user"], row["record"]["length_old"]) == (None, "Störfix", 10)
    assert json.loads(twice)["user"] == "Störfix", "as Python takes it"


def test_a_date_is_the_one_in_utc_whatever_the_session_says(
    decode: Decode, configure: Callable[[dict[str, str]], None]
) -> None:
    configure({"spark.sql.session.timeZone": "Pacific/Kiritimati"})
    midnight = int(datetime(2026, 2, 26, tzinfo=UTC).timestamp())
    days = [
        row["record"]["change_timestamp_date"]
        for row in decode(*(body(timestamp=midnight + n) for n in (-1, 0)))
    ]
    assert days == [date(2026, 2, 25), date(2026, 2, 26)]


def test_a_record_is_judged_by_when_it_came_and_not_by_the_clock(decode: Decode) -> None:
    late = decode(WHOLE, came=CAME - timedelta(days=2))
    assert re.search("more than a day after", late[0]["reason"])
    assert decode(WHOLE, came=CAME + timedelta(days=3650))[0]["reason"] is None
