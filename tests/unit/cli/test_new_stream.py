"""`sluice new-stream` writes what the specification accepts, and overwrites nothing."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from sluice.cli import new_stream
from sluice.cli.base import UsageError
from sluice.cli.topics.look import FoundTopic
from sluice.config import streams
from sluice.config.csv_reading import CsvReading
from sluice.config.folders import VARIABLE
from sluice.config.stream import SourceType
from sluice.core.csv.header import names_of
from sluice.core.csv.records.cut import cut
from sluice.core.decoding.sample import Guess
from tests.support.raising import raising


@pytest.mark.parametrize("kind", new_stream.KINDS)
def test_a_new_stream_is_valid(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert new_stream.main("bus_rides", kind, None) == 0
    spec = streams.load("bus_rides")
    assert (spec.source, spec.table, spec.topic.name) == (SourceType(kind), "raw.bus_rides", "bus-rides")
    assert spec.folder == tmp_path / "bus_rides"
    assert str(spec.folder) in capsys.readouterr().out
    # What stream.toml names is there; tests/spark/test_new_stream.py runs it.
    functions = {
        f"{file.stem}:{node.name}"
        for file in spec.folder.glob("*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef)
    }
    named = {spec.decode, spec.generator and spec.generator.rows, spec.feed and spec.feed.event} - {"", None}
    assert named <= functions
    assert bool(named) is (kind not in ("csv", "topic"))


def test_the_sources_of_streams_are_those_that_it_can_write() -> None:
    assert set(new_stream.KINDS) == set(SourceType)


def test_a_folder_is_given_by_an_option_too(tmp_path: Path) -> None:
    assert new_stream.main("rides", "csv", tmp_path / "new", {}) == 0
    assert (tmp_path / "new" / "rides" / "schema.ddl").is_file()


def test_nothing_is_written_for_what_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "note").write_text("keep")
    for name, kind, root, said in (
        ("rides", "queue", tmp_path, "csv, generator, feed, topic"),
        ("Rides-1", "csv", tmp_path, "'Rides-1'"),
        ("mine", "csv", tmp_path, tmp_path / "mine"),
        ("nyc_taxi", "csv", tmp_path, "nyc_taxi exists"),
        ("common", "csv", tmp_path, "common"),
        ("rides", "csv", None, VARIABLE),
    ):
        with raising(UsageError, said):
            new_stream.main(name, kind, root, {})
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == ["mine", "mine/note"]
    assert (tmp_path / "mine" / "note").read_text() == "keep"


FILE = "Ride ID;Started;Distance\n1;31.01.2026 04:05;1,5\n2;1.02.2026 14:05;NA\n"


def test_the_columns_of_a_file_are_inferred_and_its_rows_are_read_by_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rides.txt"
    file.write_text(FILE)
    environ = {VARIABLE: str(tmp_path / "new")}
    assert new_stream.main("rides", "csv", tmp_path / "new", environ, file) == 0
    spec = streams.load("rides", environ)
    said = capsys.readouterr().out
    assert "unsure: distance: NA is taken for null" in said
    assert (tmp_path / "new" / "rides" / "schema.ddl").read_text().split("\n")[:3] == [
        "ride_id BIGINT", "started TIMESTAMP_NTZ", "distance DOUBLE",
    ]  # fmt: skip
    reading = CsvReading.with_schema(spec, tmp_path / "new" / "rides" / "schema.ddl")
    header, *rows = (line.encode() for line in FILE.splitlines())
    layout = reading.layout(names_of(header, reading.form.dialect, "x"), "x", 10**6)
    assert layout.rows(cut(b"\n".join(rows), reading.form.dialect, is_end=True)).reasons == {}
    assert new_stream.key_of("rides", file) == "rides/rides.txt.csv"
    assert new_stream.key_of("rides", Path("A.CSV.gz")) == "rides/A.CSV.gz"


@pytest.mark.parametrize(
    ("content", "kind", "said"),
    [
        (b"", "csv", "no row"),
        (b"PK\x03\x04", "csv", "zip"),
        (None, "csv", "cannot be read"),
        (b"a\n1", "feed", "--from"),
    ],
)
def test_of_what_is_no_csv_file_nothing_is_written(
    content: bytes | None, kind: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "rides.csv"
    if content is not None:
        file.write_bytes(content)
    with raising(UsageError, said):
        new_stream.main("rides", kind, tmp_path / "new", {}, file)
    assert not (tmp_path / "new" / "rides").exists()


ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'


def found(guess: Guess) -> FoundTopic:
    return FoundTopic("shop.orders", 6, guess, ["6 partitions, 90 offsets kept"], guess.doubts)


@pytest.mark.parametrize(
    ("guess", "records"),
    [
        (Guess("json", "text", {"id": "BIGINT", "note": "STRING"}), ("json", "text", "schema.ddl")),
        (Guess("text", "", doubts=["no record has a key"]), ("text", "", "")),
        (Guess("bytes", "bytes"), ("bytes", "bytes", "")),
        (
            Guess("avro", "avro", {"id": "int64"}, [], ORDER, is_registered=True, subjects="record"),
            ("avro", "avro", "schema.avsc"),
        ),
        (
            Guess("avro", "", {"id": "int64"}, [], ORDER, is_registered=True),
            ("avro", "", "schema.avsc"),
        ),
    ],
)
def test_a_stream_of_a_topic_that_was_looked_at(
    guess: Guess, records: tuple[str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environ = {VARIABLE: str(tmp_path)}
    assert new_stream.main("orders", "topic", None, environ, found=found(guess)) == 0
    spec = streams.load("orders", environ)
    assert (spec.source, spec.topic.name, spec.topic.start) == (SourceType.TOPIC, "shop.orders", "earliest")
    assert spec.records is not None
    assert (spec.records.format, spec.records.key, spec.schema) == records
    assert (spec.records.registry, spec.records.subjects) == (guess.is_registered, guess.subjects)
    # Records of several subjects are no versions of one schema.
    assert spec.records.follows == (guess.is_registered and guess.subjects == "topic")
    if guess.schema:
        assert json.loads((tmp_path / "orders" / "schema.avsc").read_text()) == json.loads(ORDER)
    assert spec.budget.versions_per_batch == 16
    said = capsys.readouterr().out
    assert "shop.orders: 6 partitions, 90 offsets kept" in said
    assert [doubt for doubt in guess.doubts if f"unsure: {doubt}" not in said] == []
    assert [column for column in guess.columns if column not in said] == []
