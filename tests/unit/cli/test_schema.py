"""`sluice schema` prints columns and versions, or says why the registry does not tell."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest.mock import patch

import pytest

from sluice.cli import schema
from sluice.cli.base import UsageError
from sluice.cli.installation import Installation
from sluice.core.schema_versions.compared import Difference, Kind
from sluice.core.schema_versions.offsets import Seen
from sluice.core.schema_versions.stream import Column, Latest, StreamSchema, Version
from sluice.systems import Systems
from tests.support import lake as lakes

FOUND = StreamSchema(
    [Column("id", "long", 5_000), Column("channel", "string")],
    has_registry=True,
    versions=[Version(8, Seen(9_000, {0: (3, 17)}), "version 2 of orders-value", ["channel"])],
    seen_versions=1,
    latest=Latest("orders-value", 3, 9, [Difference("zip", Kind.MISSING, "", "int32")]),
    problem="it is\x1b[2J down",
    complete={0: (0, 18)},
)


def stack(folder: Path, is_running: bool = True) -> Installation:
    systems = Systems()
    checked = SimpleNamespace(check=lambda *_: None)
    vars(systems).update(lake=lakes.make(folder), s3=None, _tables={"nyc_taxi": checked})
    return cast("Installation", SimpleNamespace(is_running=lambda: is_running, systems=lambda role: systems))


def test_columns_versions_and_differences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    with patch.object(schema, "stream_schema", lambda *_: FOUND):
        assert schema.show_schema(stack(tmp_path), "nyc_taxi") == 0
    lines = [" ".join(line.replace("│", " ").split()) for line in capsys.readouterr().out.splitlines()]
    for expected in (
        "id long 1970-01-01T00:00:05+00:00",
        "channel string not known",
        "subject orders-value, newest version 3 (id 9): 1 difference",
        "zip: missing in the table (int32)",
        "8 version 2 of orders-value 1970-01-01T00:00:09+00:00 0: 3 to 17 channel",
        "1 of 1 ids of records, recorded since: 0: 0",
    ):
        assert expected in lines
    assert not any("\x1b[2J" in line for line in lines)


def test_one_document_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with patch.object(schema, "stream_schema", lambda *_: FOUND):
        assert schema.show_schema(stack(tmp_path), "nyc_taxi", as_json=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["latest"]["differences"] == [
        {"path": "zip", "kind": "missing in the table", "table": "", "schema": "int32", "fix": ""}
    ]
    assert found["versions"][0]["first_published_at"] == 9_000


def test_a_stack_that_is_down_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        schema.show_schema(stack(tmp_path, is_running=False), "nyc_taxi")
