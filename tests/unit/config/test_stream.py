"""A stream.toml: its defaults, and what is refused."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from sluice.config import folders, streams
from sluice.config.reading.toml import ConfigError
from sluice.config.sections.feed import Feed
from tests.support.raising import raising


@pytest.mark.parametrize(
    ("change", "data"),
    [
        (("partitions = 10", "partitions = 0"), "topic partitions is 0"),
        (('table = "raw.nyc_taxi"', 'table = "nyc_taxi"'), "table 'nyc_taxi'"),
        (("partitions = 10", "partition = 10"), "key 'partition'"),
    ],
)
def test_a_wrong_stream_is_refused(change: tuple[str, str], data: str) -> None:
    text = (folders.STREAMS / "nyc_taxi" / "stream.toml").read_text()
    with raising(ConfigError, "stream.toml", data):
        streams.parse(text.replace(*change), "stream.toml")


SUPERVISION = {
    "interval_seconds": 120,
    "stall_timeout_seconds": 60,
    "startup_timeout_seconds": 90,
    "lag_window_seconds": 300,
    "retention_margin_seconds": 21_600,
    "max_restarts": 3,
    "restart_window_seconds": 1_800,
    "shutdown_grace_seconds": 20,
    "max_rejected_percent": 5,
}


MINIMAL = """
name = "rides"
schema = "schema.avsc"
table = "raw.rides"
[topic]
name = "rides"
partitions = 1
[consumer]
[budget]
versions_per_batch = 1
"""


def test_supervision_may_be_left_out_in_whole_and_in_part() -> None:
    assert asdict(streams.parse(MINIMAL, "stream.toml").supervision) == SUPERVISION
    component = streams.parse(f"{MINIMAL}[supervision]\nstall_timeout_seconds = 200\n", "stream.toml")
    assert asdict(component.supervision) == SUPERVISION | {"stall_timeout_seconds": 200}


@pytest.mark.parametrize("key", SUPERVISION)
def test_every_value_of_supervision_is_1_or_more(key: str) -> None:
    streams.parse(f"{MINIMAL}[supervision]\n{key} = 1\n", "stream.toml")
    with raising(ConfigError, "stream.toml", f"supervision {key} is 0"):
        streams.parse(f"{MINIMAL}[supervision]\n{key} = 0\n", "stream.toml")


def test_a_share_is_100_percent_at_most() -> None:
    text = f"{MINIMAL}[supervision]\nmax_rejected_percent = "
    assert streams.parse(f"{text}100\n", "stream.toml").supervision.max_rejected_percent == 100
    with raising(ConfigError, "stream.toml", "supervision max_rejected_percent is 101", "at most 100"):
        streams.parse(f"{text}101\n", "stream.toml")


def test_maintenance_may_be_left_out_and_its_values_are_1_or_more() -> None:
    declared = {
        "schedule_hours": 24, "restore_horizon_days": 7, "history_days": 90, "reconciliation_hours": 1,
        "reverify_hours": 24,
    }  # fmt: skip
    assert asdict(streams.parse(MINIMAL, "stream.toml").maintenance) == declared
    for key in declared.keys() - {"history_days"}:
        one = streams.parse(f"{MINIMAL}[maintenance]\n{key} = 1\n", "stream.toml").maintenance
        assert asdict(one) == declared | {key: 1}
        with raising(ConfigError, "stream.toml", f"maintenance {key} is 0"):
            streams.parse(f"{MINIMAL}[maintenance]\n{key} = 0\n", "stream.toml")


def test_history_is_kept_as_long_as_airflows_runs_and_as_a_catalog_may_be_restored() -> None:
    text = f"{MINIMAL}[maintenance]\nhistory_days = "
    assert streams.parse(f"{text}30\n", "stream.toml").maintenance.history_days == 30
    with raising(ConfigError, "stream.toml", "maintenance history_days is 29", "at least 30"):
        streams.parse(f"{text}29\n", "stream.toml")
    with raising(ConfigError, "history_days is 45 and restore_horizon_days 46", "Fix: "):
        streams.parse(f"{text}45\nrestore_horizon_days = 46\n", "stream.toml")
    longer = f"{MINIMAL}[maintenance]\nrestore_horizon_days = 120\n"
    assert streams.parse(longer, "stream.toml").maintenance.history_days == 90


FEED = """
[feed]
url = "https://feed.example/stream"
user_agent = "Sluice (mail@rides.example)"
event_id = "event_id"
event = "events:read"
"""
QUERIES = """
[queries.riders]
group_by = ["rider"]
aggregates = {rides = "count"}
sinks = [{kind = "kafka", topic = "riders", partitions = 1}]
"""


WINDOWED = QUERIES.replace(
    "aggregates", 'event_time = "at"\nwindow = {size_minutes = 5, slide_minutes = 5}\naggregates'
).replace("aggregates", "watermark_minutes = 5\naggregates")


def test_windows_need_arrival_times_of_the_broker() -> None:
    """A sender whose clock is ahead would otherwise date the record and its arrival alike."""
    config = '[topic.config]\n"message.timestamp.type" = "{}"\n[consumer]'
    declared = streams.parse(
        (MINIMAL + WINDOWED).replace("[consumer]", config.format("LogAppendTime")), "stream.toml"
    )
    assert declared.topic.config == {"message.timestamp.type": "LogAppendTime"}
    for text, value in (
        (MINIMAL, "None"),
        (MINIMAL.replace("[consumer]", config.format("CreateTime")), "'CreateTime'"),
    ):
        with raising(ConfigError, "stream.toml", "query riders", value, '"message.timestamp.type" = '):
            streams.parse(text + WINDOWED, "stream.toml")
    streams.parse(MINIMAL + QUERIES, "stream.toml")


def test_a_stream_without_more_is_avro_unpartitioned_and_has_a_consumer_alone() -> None:
    spec = streams.parse(MINIMAL, "stream.toml")
    assert (spec.is_avro, spec.partition_by, spec.feed, spec.queries) == (True, [], None, {})
    assert [(p.name, p.program, p.arguments) for p in spec.components.values()] == [
        ("consumer", "stream-rides", ("-m", "spark_jobs", "consumer", "rides"))
    ]
    with raising(ConfigError, "'rides'", "'producer'", "consumer"):
        spec.component("producer")


def test_a_feed_is_read_at_its_own_address_in_somebodys_name_only() -> None:
    spec = streams.parse(MINIMAL + FEED, "stream.toml")
    assert spec.feed_url({"other": "http://127.0.0.1:1/"}) == "https://feed.example/stream"
    nobodys = streams.parse(MINIMAL + FEED.replace("mail@rides.example", "you@example.org"), "stream.toml")
    assert nobodys.feed_url({"rides": "http://127.0.0.1:1/"}) == "http://127.0.0.1:1/"
    with raising(ConfigError, "you@example.org", "https://feed.example/stream"):
        nobodys.feed_url({})
    with raising(ConfigError, "'rides'", "[feed]"):
        streams.parse(MINIMAL, "stream.toml").feed_url({})


def test_a_feed_and_queries_are_parts_with_defaults() -> None:
    spec = streams.parse(MINIMAL + FEED + QUERIES, "stream.toml")
    assert spec.feed == Feed(
        "https://feed.example/stream", "Sluice (mail@rides.example)", "event_id", "events:read", "", 30, 5000
    )
    assert {name: (p.program, p.arguments[2:]) for name, p in spec.components.items()} == {
        "consumer": ("stream-rides", ("consumer", "rides")),
        "producer": ("stream-rides-producer", ("producer", "rides")),
        "queries": ("stream-rides-queries", ("queries", "rides")),
    }
    assert spec.component("queries") == spec.components["queries"]
    assert spec.program == spec.component("consumer").program


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('"schema.avsc"', '"schema.json"'), "schema 'schema.json'. Fix: name a file"),
        (('table = "raw.rides"', 'table = "Rides"'), "table 'Rides': write it as namespace.table"),
        (('"event_id"', '"eventId"'), "column 'eventId'. Fix: use"),
        (('"https://feed', '"ftp://feed'), "feed url 'ftp://feed.example/stream'. Fix: write it with http"),
        (('"events:read"', '"events.read"'), "feed event 'events.read'. Fix: write it as module:function"),
        (("[topic]", 'decode = "a:b"\n[topic]'), "decode 'a:b' with schema 'schema.avsc'"),
        (("[feed]", "[csv]\n[feed]"), "[csv] and [feed]"),
        (('event_id = "event_id"', ""), "key 'event_id' is missing"),
        (("[topic]", 'partition_by = ["Day"]\n[topic]'), "column 'Day'. Fix: use"),
        (("[topic]", 'partition_by = "day"\n[topic]'), "partition_by: 'day' is not a list"),
        (("[topic]", "partition_by = [1]\n[topic]"), "partition_by: 1 is a int. Fix: give a str"),
        (
            ('[topic]\nname = "rides"', '[topic]\nname = "sluice-progress"'),
            "topic 'sluice-progress' is reserved",
        ),
        # Less 16 KiB for headers, every event would be cut to one byte.
        (
            ("[feed]", '[topic.config]\n"max.message.bytes" = 16384\n[feed]'),
            "max.message.bytes is 16384; a feed's must be at least 65536. Fix: raise it",
        ),
    ],
)
def test_a_wrong_feed_table_or_partition_is_refused(change: tuple[str, str], words: str) -> None:
    text = MINIMAL + FEED + QUERIES
    assert change[0] in text
    with pytest.raises(ConfigError) as caught:
        streams.parse(text.replace(*change), "stream.toml")
    assert words in str(caught.value)


def test_records_after_a_ddl_are_json_unless_a_function_decodes_them() -> None:
    text = (MINIMAL + FEED + QUERIES).replace('"schema.avsc"', '"schema.ddl"')
    assert not streams.parse(text, "stream.toml").decode
    own = text.replace("[topic]", 'decode = "a:b"\n[topic]', 1)
    assert streams.parse(own, "stream.toml").decode
    by_reference = "[consumer]\nby_reference = true"
    assert streams.parse(text.replace("[consumer]", by_reference), "stream.toml").consumer.by_reference
    with raising(ConfigError, "by_reference with decode 'a:b'", "leave by_reference out"):
        streams.parse(own.replace("[consumer]", by_reference), "stream.toml")


def test_a_streams_objects_are_in_a_folder_of_its_name_unless_it_declares_another() -> None:
    assert streams.parse(MINIMAL, "stream.toml").source_prefix == "rides/"
    for prefix in ("", "a/", "team-1/rides_2.0/v=1/"):
        found = streams.parse(f'{MINIMAL}\n[csv]\nprefix = "{prefix}"', "stream.toml")
        assert found.source_prefix == prefix
    found = streams.parse(MINIMAL + '\n[csv]\nprefix = "team/{name}/"', "stream.toml")
    assert found.source_prefix == "team/rides/"


@pytest.mark.parametrize(
    "prefix", ["rides", "/", "/a/", "a//b/", "../b/", "a/../b/", "a/./", "a*/", "a b/", "a(/", "ä/", "a/\\n"]
)
def test_a_prefix_that_bounds_nothing_is_refused(prefix: str) -> None:
    with raising(ConfigError, "stream.toml", "[csv] prefix", "folders", 'that end with "/"'):
        streams.parse(f'{MINIMAL}\n[csv]\nprefix = "{prefix}"', "stream.toml")


@pytest.mark.parametrize("key", ["read_timeout_seconds", "max_in_flight", "lock_seconds"])
def test_every_number_of_a_feed_is_1_or_more(key: str) -> None:
    text = (MINIMAL + FEED).replace("[feed]", f"[feed]\n{key} = 0")
    with raising(ConfigError, "stream.toml", f"feed {key} is 0"):
        streams.parse(text, "stream.toml")
    streams.parse(text.replace(f"{key} = 0", f"{key} = 1"), "stream.toml")


def test_columns_in_spark_ddl_are_not_avro() -> None:
    more = 'decode = "transforms:rows"\npartition_by = ["day"]\n[topic]'
    text = MINIMAL.replace("schema.avsc", "schema.ddl").replace("[topic]", more) + FEED
    spec = streams.parse(text, "stream.toml")
    assert not spec.is_avro
    assert spec.partition_by == ["day"]
