"""`sluice new-stream` writes what the specification accepts, and overwrites nothing."""

from __future__ import annotations

import ast
import json
import os
import shlex
import tomllib
from pathlib import Path

import pytest

from sluice.cli import new_stream
from sluice.cli.base import UsageError
from sluice.cli.topics.look import FoundTopic
from sluice.config import folders, streams
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
    assert new_stream.main("bus_rides", kind, new_stream.root_of(None, None)) == []
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
    assert new_stream.main("rides", "csv", tmp_path / "new", {}) == []
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
    doubts = new_stream.main("rides", "csv", tmp_path / "new", environ, file)
    spec = streams.load("rides", environ)
    said = capsys.readouterr().out
    assert doubts == ["distance: NA is taken for null, in all columns"]
    assert f"unsure: {doubts[0]}\n{new_stream.CORRECT}" in said
    assert "3 columns, by 2 rows of " in said
    assert '[csv]\n  separator = ";"\n  decimal_comma = true\n' in said
    text = (tmp_path / "new" / "rides" / "stream.toml").read_text()
    assert [key for key in tomllib.loads(text)["csv"] if f"# {key} = " in text] == []
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


def test_without_a_doubt_there_is_nothing_to_correct(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rides.csv"
    file.write_text("id\n1\n")
    assert new_stream.main("rides", "csv", tmp_path, {VARIABLE: str(tmp_path)}, file) == []
    said = capsys.readouterr().out
    assert f"1 column, by 1 row of {file}:\n  id  BIGINT\n" in said
    assert "unsure" not in said
    assert new_stream.CORRECT not in said
    assert "[csv]" not in said


def test_the_folder_of_new_streams(tmp_path: Path) -> None:
    given = {VARIABLE: os.pathsep.join(["", "/first", "/second"])}
    assert new_stream.root_of(tmp_path, Path("/usual"), given) == tmp_path
    assert new_stream.root_of(None, Path("/usual"), given) == Path("/first")
    assert new_stream.root_of(None, Path("/usual"), {}) == Path("/usual")
    with raising(UsageError, VARIABLE, "--into"):
        new_stream.root_of(None, None, {VARIABLE: ""})


def test_a_folder_that_no_process_knows_is_to_be_exported(tmp_path: Path) -> None:
    given = {VARIABLE: str(tmp_path / "a")}
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert new_stream.steps_to_know(tmp_path / "link", given) == []
    assert new_stream.steps_to_know(folders.STREAMS, {}) == []
    (line,) = new_stream.steps_to_know(tmp_path / "my streams", given)
    assert shlex.split(line) == [
        "export",
        f"{VARIABLE}={tmp_path / 'a'}{os.pathsep}{tmp_path / 'my streams'}",
    ]


def test_a_shell_takes_the_commands_that_load() -> None:
    put, load = new_stream.steps_to_load("local/run", "rides", Path("Mixed Case.CSV"))
    assert shlex.split(put) == ["local/run", "put", "Mixed Case.CSV", "rides/Mixed Case.CSV"]
    assert load == "local/run load rides --unpause"


ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'


def found(guess: Guess) -> FoundTopic:
    return FoundTopic("shop.orders", 6, guess, ["6 partitions, 90 offsets kept"], guess.doubts)


@pytest.mark.parametrize(
    ("guess", "records"),
    [
        (Guess("json", "text", {"id": "BIGINT", "note": "STRING"}), ("json", "text", "schema.ddl")),
        (Guess("text", "", doubts=["no record has a key"]), ("text", "", "")),
        (Guess("bytes", "bytes"), ("bytes", "bytes", "")),
        (Guess("json", "text", {"Key": "BIGINT", "record_key": "STRING"}), ("json", "text", "schema.ddl")),
        (
            Guess("avro", "avro", {"id": "int64"}, schema=ORDER, is_registered=True, subjects="record"),
            ("avro", "avro", "schema.avsc"),
        ),
        (
            Guess("avro", "", {"id": "int64"}, schema=ORDER, is_registered=True),
            ("avro", "", "schema.avsc"),
        ),
    ],
)
def test_a_stream_of_a_topic_that_was_looked_at(
    guess: Guess, records: tuple[str, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environ = {VARIABLE: str(tmp_path)}
    assert new_stream.main("orders", "topic", tmp_path, environ, found=found(guess)) == guess.doubts
    spec = streams.load("orders", environ)
    assert (spec.source, spec.topic.name, spec.topic.start) == (SourceType.TOPIC, "shop.orders", "earliest")
    assert spec.records is not None
    assert (spec.records.format, spec.records.key, spec.schema) == records
    assert spec.records.registry == guess.is_registered
    # Records of several subjects are no versions of one schema.
    assert spec.records.follows == (guess.is_registered and guess.subjects == "topic")
    if guess.schema:
        assert json.loads((tmp_path / "orders" / "schema.avsc").read_text()) == json.loads(ORDER)
    assert spec.budget.versions_per_batch == 16
    said = capsys.readouterr().out
    assert "shop.orders: 6 partitions, 90 offsets kept" in said
    assert [doubt for doubt in guess.doubts if f"unsure: {doubt}" not in said] == []
    assert [column for column in guess.columns if column not in said] == []
