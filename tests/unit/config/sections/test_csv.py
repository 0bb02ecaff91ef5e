"""``[csv]``: what a declaration may say of files, and what of a schema a cell can be."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sluice.config import streams
from sluice.config.csv_reading import CsvReading
from sluice.config.folders import VARIABLE
from sluice.config.reading.toml import ConfigError
from sluice.config.schema import ddl_avro, parse_ddl
from sluice.config.sending_rules import SendingRules
from sluice.config.stream import StreamSpec
from sluice.core.csv.form import Dialect, Form
from sluice.core.csv.header import InvalidHeader
from tests.support.raising import raising

TOML = """
name = "rides"
schema = "schema.ddl"
table = "raw.rides"
[topic]
name = "rides"
partitions = 1
[budget]
versions_per_batch = 1
[csv]
"""
COLUMNS = (
    "id BIGINT",
    "ok BOOLEAN",
    "day DATE",
    "at TIMESTAMP",
    "local TIMESTAMP_NTZ",
    "amount DECIMAL(9, 2)",
)
DDL = "\n".join((*COLUMNS, "note STRING", "short INT"))


def load(folder: Path, declared: str = "", schema: str = DDL, file: str = "schema.ddl") -> StreamSpec:
    (folder / "rides").mkdir()
    (folder / "rides" / "stream.toml").write_text(TOML.replace("schema.ddl", file) + declared)
    (folder / "rides" / file).write_text(schema)
    return streams.load("rides", {VARIABLE: str(folder)})


def test_a_stream_of_files_needs_no_avro(tmp_path: Path) -> None:
    spec = load(tmp_path)
    assert (spec.is_avro, spec.is_ddl) == (True, True)
    fields = CsvReading.with_schema(spec, tmp_path / "rides" / "schema.ddl").schema["fields"]
    assert [(field["name"], field["type"][0], field["default"]) for field in fields] == [
        (name, "null", None) for name in ("id", "ok", "day", "at", "local", "amount", "note", "short")
    ]
    assert fields[3]["type"][1] == {"type": "long", "logicalType": "timestamp-micros"}
    assert fields[5]["type"][1] == {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    assert ddl_avro(parse_ddl("b BINARY"), "r")["fields"][0]["type"] == ["null", "bytes"]


def test_the_form_is_declared_and_goes_with_the_rules(tmp_path: Path) -> None:
    spec = load(
        tmp_path,
        'separator = ";"\nescape = "\\\\"\nencoding = "utf-16"\nnames = ["id"]\n'
        "trailing_empty_columns = true\nskip_blank_rows = false\ndecimal_comma = true\n"
        'line_ends = "crlf"\nskip_lines = 1\n',
    )
    form = Form(Dialect(";", '"', "\\", "", True, False, "crlf"), "utf-16", ("id",), 1)
    assert spec.csv.form == form
    rules = SendingRules(1_000_000, "x", form=form)
    planned = json.loads(json.dumps(rules.to_document()))
    assert SendingRules.from_document(planned) == rules
    del planned["form"]["skip_lines"]
    assert SendingRules.from_document(planned).form == replace(form, skip_lines=0)
    # A plan of 0.1.0 has no form, and is of other rules.
    assert Form.from_document(None) == Form()
    del planned["form"]
    assert rules.differences({**planned, "version": 1}) == [
        "it was planned by version 1 of the rules, this is 3"
    ]


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ('separator = ""', ["separator ''"]),
        ('separator = "::"', ["separator '::'"]),
        ('separator = "a"', ["separator 'a'"]),
        ('quote = ","', ["',' has two duties"]),
        ("skip_lines = -1", ["skip_lines is -1", "at least 0"]),
        ("skip_lines = 1001", ["at most 1000"]),
        ('line_ends = "nl"', ["line_ends 'nl'", "any, lf, crlf, cr"]),
        ('encoding = "ebcdic"', ["encoding 'ebcdic'", "windows-1252"]),
        ("decimal_comma = true", ["decimal_comma", 'separator = ";"']),
        ('names = ["a", ""]', ["names has an empty one"]),
        ('names = ["a", "A"]', ["names has 'a' and 'A'"]),
        ('escape = "\\\\"\nnull_texts = ["N\\\\"]', ["null_texts 'N\\\\' ends with the escape"]),
        ('null_texts = ["a,b"]', ["null_texts 'a,b'", "quoted_nulls = true"]),
        ("null_texts = ['\"\"']", ["null_texts '\"\"'", "quoted_nulls = true"]),
        ('true_texts = ["N"]', ["both 'n'"]),
        ('time_formats = ["yyyy-MM-dd QQ"]', ["time_formats", "'QQ'"]),
    ],
)
def test_what_cannot_be_is_refused(declared: str, words: list[str], tmp_path: Path) -> None:
    with raising(ConfigError, "[csv]", "Fix: ", *words):
        load(tmp_path, declared)


@pytest.mark.parametrize("kind", ["bytes", {"type": "array", "items": "int"}, ["null", "int", "string"]])
def test_a_column_that_no_cell_can_be_is_refused(kind: object, tmp_path: Path) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": kind}]}
    with raising(ConfigError, "schema.avsc", "'x'", "Fix: use"):
        load(tmp_path, schema=json.dumps(schema), file="schema.avsc")
    (tmp_path / "other").mkdir()
    with raising(ConfigError, "schema.ddl", "'x'", "no CSV cell"):
        load(tmp_path / "other", schema="x BINARY")


def test_a_map_that_takes_no_other_columns_is_refused(tmp_path: Path) -> None:
    """Else a file with a column of its name fails in the producer."""
    texts = {"type": "map", "values": "string"}
    fields = [{"name": "id", "type": "long"}, {"name": "more", "type": texts}]
    schema = json.dumps({"type": "record", "name": "r", "fields": fields})
    with raising(ConfigError, "'more' is a map", "Fix: name it as extra_columns"):
        load(tmp_path, schema=schema, file="schema.avsc")


def test_new_columns_are_followed_by_the_table_and_need_no_map(tmp_path: Path) -> None:
    spec = load(tmp_path, 'new_columns = "column"')
    assert (spec.follows, spec.follows_fingerprints) == (True, True)
    reading = CsvReading.with_schema(spec, tmp_path / "rides" / "schema.ddl")
    layout = reading.layout(("NEW one", "id"), "x", 1_000)
    assert [(one.name, one.position) for one in layout.columns if one.position is not None] == [
        ("id", 1),
        ("new_one", 0),
    ]
    with raising(InvalidHeader, "no column of the header is one of the schema"):
        reading.layout(("x", "y"), "x", 1_000)


@pytest.mark.parametrize(
    ("toml", "declared", "said"),
    [
        (TOML, 'new_columns = "map"', 'new_columns \'map\'. Fix: use one of "extra_columns", "column"'),
        (TOML.replace("[budget]", "registry = true\n[budget]"), 'new_columns = "column"', "registry = true"),
    ],
)
def test_new_columns_are_of_files_without_a_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toml: str, declared: str, said: str
) -> None:
    monkeypatch.setitem(globals(), "TOML", toml)
    with raising(ConfigError, "stream.toml", "[csv] new_columns", said, "Fix: "):
        load(tmp_path, declared)
