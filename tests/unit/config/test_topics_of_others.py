"""A stream over a topic that others fill: what it declares, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from sluice.config import folders, streams
from sluice.config.folders import VARIABLE
from sluice.config.reading.toml import ConfigError
from sluice.config.stream import SourceType
from sluice.core.offsets.start import Start, StartKind
from tests.support.declarations import OF_OTHERS as OTHERS
from tests.support.raising import raising
from tests.unit.config.test_stream import FEED, WINDOWED

INTERVALS = '[intervals]\nschedule = "@hourly"\nstart_date = "2026-06-01"\n'


def test_a_topic_of_others_is_a_source_of_its_own() -> None:
    spec = streams.parse(OTHERS, "stream.toml")
    assert (spec.source, spec.topic.start, spec.is_avro) == (SourceType.TOPIC, "earliest", False)
    assert spec.components.keys() == {"consumer"}
    avro = streams.parse(OTHERS.replace("schema.ddl", "schema.avsc"), "stream.toml")
    assert avro.is_avro
    assert streams.parse(OTHERS + INTERVALS, "stream.toml").intervals is not None


def with_topic(line: str) -> str:
    return OTHERS.replace("managed = false", f"managed = false\n{line}")


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (with_topic("partitions = 4"), ("topic partitions", "managed")),
        (with_topic("replication_factor = 3"), ("topic replication_factor", "managed")),
        (with_topic('config = {"retention.ms" = 1}'), ("topic config", "managed")),
        (with_topic('start = "yesterday"'), ("topic start", "'yesterday'")),
        (OTHERS + FEED, ("[feed]", "managed")),
        (OTHERS + "[csv]\n", ("[csv]", "managed")),
        (
            OTHERS + '[backfill]\nschedule = "@daily"\npattern = "a%Y%m%d"\nstart_date = "2026-06-01"\n',
            ("[backfill]", "[topic]", "[intervals]"),
        ),
        (OTHERS + INTERVALS.replace("@hourly", "@often"), ("intervals schedule", "'@often'")),
        (OTHERS + INTERVALS.replace("2026-06-01", "June"), ("intervals start_date", "'June'")),
        (
            OTHERS.replace("managed = false", 'partitions = 1\nstart = "latest"'),
            ("topic start", "'latest'", "managed"),
        ),
        (OTHERS.replace("managed = false", "partitions = 1") + INTERVALS, ("[intervals]", "[csv]")),
        (OTHERS.replace("managed = false", ""), ("topic partitions is 0",)),
    ],
)
def test_what_does_not_go_with_it(text: str, data: tuple[str, ...]) -> None:
    with raising(ConfigError, "stream.toml", *data, "Fix: "):
        streams.parse(text, "stream.toml")


def test_windows_are_checked_where_the_topic_is_seen() -> None:
    streams.parse(OTHERS + WINDOWED, "stream.toml")


def test_streams_may_read_one_topic_of_others(tmp_path: Path) -> None:
    for name in ("orders", "orders_too"):
        (tmp_path / name).mkdir()
        text = OTHERS.replace('"orders"', f'"{name}"').replace('"shop.orders"\n[', f'"shop.{name}"\n[')
        (tmp_path / name / "stream.toml").write_text(text)
        (tmp_path / name / "schema.ddl").write_text("id BIGINT\n")
    environ = {VARIABLE: str(tmp_path)}
    specs = [streams.load(name, environ) for name in ("orders", "orders_too")]
    assert streams.problems(specs, environ) == []


def test_the_example_of_the_documentation_is_valid() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "topics-of-others.md"
    example, records, messages, intervals, own = re.findall(r"```toml\n(.*?)```", page.read_text(), re.S)
    spec = streams.parse(example, "topics-of-others.md")
    assert (spec.source, spec.name, spec.topic.name) == (SourceType.TOPIC, "orders", "shop.orders")
    assert streams.parse(example + intervals, "topics-of-others.md").intervals is not None
    text = example.replace('"schema.ddl" ', '"schema.avsc"') + records
    assert streams.parse(text, "topics-of-others.md").records is not None
    schema, of_messages = messages.split("\n\n", 1)
    text = re.sub(r"^schema = .*$", schema, example, count=1, flags=re.M) + of_messages
    assert streams.parse(text, "topics-of-others.md").is_protobuf
    starts = re.findall(r"^\| `([^`]+)` \| (?:at|behind|in) ", page.read_text(), re.M)
    assert [Start.parse(text).kind for text in starts] == list(StartKind)
    taxi = (folders.STREAMS / "nyc_taxi" / "stream.toml").read_text()
    with_key = re.sub(r"\[topic\]\n.*?\n\n", lambda _: f"{own}\n", taxi, count=1, flags=re.S)
    assert with_key != taxi
    assert streams.parse(with_key, "stream.toml").topic == replace(
        streams.load("nyc_taxi").topic, registry=True
    )
