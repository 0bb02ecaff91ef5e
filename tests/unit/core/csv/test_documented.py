"""The examples of the documentation are read as it says."""

from __future__ import annotations

import io
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from local.base import REPO
from sluice.config.csv_reading import rules_of
from sluice.config.schema import ddl_avro, parse_ddl
from sluice.config.sections.csv import Csv, check
from sluice.core.csv.header import names_of
from sluice.core.csv.inference import infer
from sluice.core.csv.layout import Layout
from sluice.core.csv.records.cut import cut
from sluice.core.csv.records.encodings import as_utf8

PAGE = (REPO / "docs" / "adding-a-stream.md").read_text()
TABLE = PAGE.partition("### Settings by example")[2].partition("### Headers")[0]
TYPES: dict[type, Any] = {str: "string", bool: "boolean", float: "double", type(None): "string"}
DATE = {"type": "int", "logicalType": "date"}


def examples() -> Iterator[tuple[str, str, list[list[Any]]]]:
    """What is declared, the file, and its rows."""
    for line in TABLE.splitlines():
        match = re.fullmatch(r"\| (.*?) ?\| `(.*?)` \| (`\[.*\]`) \|", line)
        if match:
            declared = "\n".join(re.findall("`(.*?)`", match[1]))
            text = match[2].replace("⏎", "\n").replace("␍", "\r")
            yield declared, text, [json.loads(row) for row in re.findall("`(.*?)`", match[3])]


EXAMPLES = list(examples())


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_is_read_so(number: int) -> None:
    declared, text, rows = EXAMPLES[number]
    csv = Csv(**tomllib.loads(declared))
    names = [f"c{n}" for n in range(len(rows[0]))]
    kinds = [DATE if csv.time_formats == ["d.M.yyyy"] else TYPES[type(value)] for value in rows[-1]]
    schema: Any = {
        "type": "record",
        "name": "R",
        "fields": [{"name": n, "type": ["null", k]} for n, k in zip(names, kinds, strict=True)],
    }
    found = read(csv, names, schema, text.encode())
    assert [[shown(value) for value in record.values()] for record in found] == rows


def read(csv: Csv, names: list[str], schema: Any, rows: bytes) -> list[dict[str, Any]]:
    """The records of a file's rows, of which none is rejected."""
    check(csv, "docs")
    dialect = csv.form.dialect
    layout = Layout.of(names, schema, "", rules_of(csv), dialect, "docs", 10**6)
    found = layout.rows(cut(rows, dialect, True, layout.width))
    assert found.reasons == {}
    parsed, records = fastavro.parse_schema(schema), list[Any]()
    for body in found.bodies:
        records.append(fastavro.schemaless_reader(io.BytesIO(body.as_py()), parsed, None))
    return records


def shown(value: Any) -> Any:
    if isinstance(value, Decimal):
        return str(value)
    return value.isoformat() if hasattr(value, "isoformat") else value


NULLS = re.findall(
    r"^\| `(.*?)` \| (.*?) ?\| `(.*?)` \|$",
    PAGE.partition("### Null texts")[2].partition("### Headers")[0],
    re.MULTILINE,
)


@pytest.mark.parametrize("number", range(len(NULLS)))
def test_a_null_text_is_read_so(number: int) -> None:
    cell, declared, value = NULLS[number]
    csv = Csv(**tomllib.loads("\n".join(re.findall("`(.*?)`", declared))))
    schema = ddl_avro(parse_ddl("a STRING\nb STRING"), "r")
    (record,) = read(csv, ["a", "b"], schema, f"{cell},x\n".encode())
    assert record == {"a": json.loads(value), "b": "x"}


def test_each_null_text_is_found() -> None:
    assert len(NULLS) == 10


def test_a_german_export_is_inferred_and_read_so() -> None:
    section = PAGE.partition("### A German Excel's export")[2].partition("\n### ")[0]
    text, declared, ddl, rows = re.findall(r"```\w*\n(.*?)```", section, re.DOTALL)
    data, section_csv = text.replace("\n", "\r\n").encode("cp1252"), tomllib.loads(declared)["csv"]
    found = infer(iter([data]))
    columns = "\n".join(f"{name} {kind}" for name, kind in found.columns.items())
    assert (found.declared, parse_ddl(columns)) == (section_csv, parse_ddl(ddl))
    assert [doubt.split(":")[0] for doubt in found.doubts] == [
        "the file is not UTF-8 and has no mark", "bezahlt",
    ]  # fmt: skip
    csv = Csv(**section_csv)
    header, _, body = b"".join(as_utf8([data], csv.encoding)).partition(b"\r\n")
    names = names_of(header, csv.form.dialect, "docs")
    records = read(csv, names, ddl_avro(parse_ddl(ddl), "r"), body)
    wanted = [json.loads(line) for line in rows.splitlines()]
    assert [{name: shown(value) for name, value in record.items()} for record in records] == wanted


def test_each_setting_has_an_example() -> None:
    assert len(EXAMPLES) > 15
    assert {one.name for one in fields(Csv)} <= set(re.findall(r"\b([a-z_]+) = ", TABLE))
