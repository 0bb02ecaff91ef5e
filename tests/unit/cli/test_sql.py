"""Only tables that a query names are read, and none is read empty a second time."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow

from sluice.cli.installation import Installation
from sluice.cli.sql import main, named, reads_again, tables
from sluice.clients.lake.reading.files import committed_since
from tests.support import lake as lakes


def test_tables_of_every_stream() -> None:
    assert tables()["nyc_taxi"] == "raw.nyc_taxi"
    assert tables()["nyc_taxi_quarantine"] == "raw.nyc_taxi_quarantine"
    assert tables()["wiki_changes_editors"] == "results.wiki_changes_editors"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("select count(*) from nyc_taxi", {"nyc_taxi"}),
        ("SELECT 1 FROM NYC_TAXI", {"nyc_taxi"}),
        ('select * from "nyc_taxi" join nyc_taxi_quarantine using (x)', {"nyc_taxi", "nyc_taxi_quarantine"}),
        ("describe nyc_taxi_quarantine", {"nyc_taxi_quarantine"}),
        ("select 1", set()),
    ],
)
def test_named(query: str, expected: set[str]) -> None:
    assert named(query, tables()) == expected


@pytest.mark.parametrize(
    ("query", "again"),
    [
        ("select count(*) from nyc_taxi", False),
        ("select 1 from nyc_taxi, nyc_taxi_quarantine", False),
        ("select 1 from nyc_taxi a join nyc_taxi b using (_source_row)", True),
        ("with a as (from nyc_taxi) select (select count(*) from a), (select count(*) from a)", True),
    ],
)
def test_a_stream_is_read_once_only(query: str, again: bool) -> None:
    assert reads_again(query, "nyc_taxi") is again


class NoLake:
    def is_running(self) -> bool:
        return True


class OneTable(NoLake):
    """A lake with a table of these rows."""

    def __init__(self, folder: Path, name: str, rows: pa.Table) -> None:
        self.lake = lakes.empty(folder)
        self.lake.catalog.create_namespace("raw")
        table = self.lake.catalog.create_table(name, rows.schema)
        schema = schema_to_pyarrow(table.schema())
        table.append(pa.Table.from_pylist([{}], schema))
        (task,) = committed_since(table, 0)
        # As it stands: PyIceberg loses nulls, and reads values that Python does not have.
        pq.write_table(rows.cast(schema), task.file.file_path.removeprefix("file://"))

    def systems(self, role: str) -> SimpleNamespace:
        return SimpleNamespace(lake=self.lake)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a[b]c", "a[b]c"),
        ("[/b]", "[/b]"),
        (":warning:", ":warning:"),
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("tab\tand\nline", r"tab\tand\nline"),
        ("\u202etxt", r"\u202etxt"),
        ("Стефанко", "Стефанко"),
        ("é\u200d", "é\u200d"),
    ],
)
def test_a_value_is_printed_as_it_is(value: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    # rich took markup out of values, `[/b]` ended the command, escape sequences reached the terminal.
    text = " || ".join(f"chr({ord(character)})" for character in value)
    assert main(cast("Installation", NoLake()), f'select {text} as "[b]name"') == 0
    out = capsys.readouterr().out
    assert f" {shown} " in out
    assert "[b]name" in out
    assert "\x1b" not in out


def test_an_error_gives_a_terminal_no_orders(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(cast("Installation", NoLake()), "select cast(chr(27) || '[31m' as int)") == 1
    err = capsys.readouterr().err
    assert r"\x1b[31m" in err
    assert "\x1b" not in err


def test_records_that_no_reader_can_read_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places, texts = [(0, 7), (0, 8), (0, 9), (1, 0), (2, 0)], ["good", "b\xfcd", "good", "good", "b\xfcd"]
    reasons = pa.array([text.encode("latin-1") for text in texts])
    columns = {
        "reason": pa.Array.from_buffers(pa.string(), len(texts), reasons.buffers()),
        "_kafka_partition": [partition for partition, _ in places],
        "_kafka_offset": [offset for _, offset in places],
    }
    stack = OneTable(tmp_path, "raw.nyc_taxi_quarantine", pa.table(columns))
    assert main(cast("Installation", stack), "select reason from nyc_taxi_quarantine") == 1
    err = capsys.readouterr().err
    assert "nyc_taxi_quarantine: no reader can read the records at 0=[8,9) 2=[0,1)." in err
    assert "nyc_taxi_change, action remove" in err
    assert main(cast("Installation", stack), "select nothing from nyc_taxi_quarantine") == 1
    assert "no reader" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.timestamp("us"), 2**63 - 1),
        (pa.timestamp("us"), 1 - 2**63),
        (pa.date32(), 2**31 - 1),
        (pa.list_(pa.timestamp("us")), [2**63 - 1]),
    ],
)
def test_a_time_that_duckdb_shows_as_another_one_is_named(
    kind: pa.DataType, value: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Infinity, for which Python has no value."""
    columns = {"at": pa.array([value], kind), "_kafka_partition": [0], "_kafka_offset": [7]}
    assert (
        main(
            cast("Installation", OneTable(tmp_path, "raw.nyc_taxi", pa.table(columns))),
            'select "at" from nyc_taxi',
        )
        == 1
    )
    err = capsys.readouterr().err
    assert "nyc_taxi: no reader can read the records at 0=[7,8)" in err
    assert "action remove" in err


def test_the_first_and_the_last_time_of_all_are_some(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # In microseconds since 1970.
    ends = pa.array([-62_135_596_800_000_000, 253_402_300_799_999_999], pa.timestamp("us"))
    columns = {"at": ends, "_kafka_partition": [0, 0], "_kafka_offset": [7, 8]}
    assert (
        main(
            cast("Installation", OneTable(tmp_path, "raw.nyc_taxi", pa.table(columns))),
            'select "at" from nyc_taxi',
        )
        == 0
    )
    assert not capsys.readouterr().err


def test_a_program_reads_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(cast("Installation", NoLake()), "select 1 as a, null as b, date '2026-01-02' as a", True) == 0
    assert json.loads(capsys.readouterr().out) == {
        "columns": ["a", "b", "a"],
        "rows": [[1, None, "2026-01-02"]],
        "has_more": False,
    }
    assert main(cast("Installation", NoLake()), "select * from range(101)", True) == 0
    found = json.loads(capsys.readouterr().out)
    assert (len(found["rows"]), found["has_more"]) == (100, True)


def test_an_empty_list_and_none_are_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = pa.struct([("key", pa.string()), ("value", pa.binary())])
    rows = pa.table(
        {
            "headers": pa.array([None, [], [{"key": "a", "value": b"1"}]], pa.list_(pair)),
            "more": pa.array([[("x", {"key": "a"})], None, []], pa.map_(pa.string(), pair)),
        }
    )
    stack = OneTable(tmp_path, "raw.nyc_taxi", rows)
    query = "select headers is null, len(headers), more is null, cardinality(more) from nyc_taxi"
    assert main(cast("Installation", stack), query, True) == 0
    found = json.loads(capsys.readouterr().out)["rows"]
    assert found == [[True, None, False, 1], [False, 0, True, None], [False, 1, False, 0]]
