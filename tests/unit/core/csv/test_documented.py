"""The examples of the documentation are read as it says."""

from __future__ import annotations

import io
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import fastavro
import pytest

from local.base import REPO
from sluice.config.csv_reading import rules_of
from sluice.config.sections.csv import Csv, check
from sluice.core.csv.layout import Layout
from sluice.core.csv.records.cut import cut

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
    check(csv, "docs")
    names = [f"c{n}" for n in range(len(rows[0]))]
    kinds = [DATE if csv.time_formats == ["d.M.yyyy"] else TYPES[type(value)] for value in rows[-1]]
    schema: Any = {
        "type": "record",
        "name": "R",
        "fields": [{"name": n, "type": ["null", k]} for n, k in zip(names, kinds, strict=True)],
    }
    dialect = csv.form.dialect
    layout = Layout.of(names, schema, "", rules_of(csv), dialect, "docs", 10**6)
    found = layout.rows(cut(text.encode(), dialect, True, layout.width))
    parsed, values = fastavro.parse_schema(schema), []
    for body in found.bodies:
        record: Any = fastavro.schemaless_reader(io.BytesIO(body.as_py()), parsed, None)
        values.append(
            [value.isoformat() if hasattr(value, "isoformat") else value for value in record.values()]
        )
    assert (found.reasons, values) == ({}, rows)


def test_each_setting_has_an_example() -> None:
    assert len(EXAMPLES) > 15
    assert {one.name for one in fields(Csv)} <= set(re.findall(r"\b([a-z_]+) = ", TABLE))
