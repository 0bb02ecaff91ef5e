"""Folders of streams as a test needs them, and what the DAG file makes of them."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from tests.support import rides

# The stream that a test makes invalid, beside two that are valid.
NAME = "fuzzed"
VALID = ("rides", "trips")
KINDS = ("load", "stream", "maintenance", "change", "reconciliation")
INVALID = {f"{NAME}_stream"}
HEALTHY = {f"{name}_{kind}" for name in VALID for kind in KINDS}
CONFIGURATION = "sluice_configuration"


def make(root: Path, name: str, toml: str | bytes | None = None, schema: str | None = None) -> Path:
    """A stream's folder below ``root``; by default a valid CSV stream's."""
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    text = rides.TOML.replace('"rides"', f'"{name}"').replace("raw.rides", f"raw.{name}")
    content = text if toml is None else toml
    (folder / "stream.toml").write_bytes(content if isinstance(content, bytes) else content.encode())
    (folder / "schema.avsc").write_text(json.dumps(rides.SCHEMA) if schema is None else schema)
    return folder


def toml(name: str = NAME, *changes: tuple[str, str], more: str = "") -> str:
    """The declaration of a valid CSV stream, with texts replaced and ``more`` at its end."""
    text = rides.TOML.replace('"rides"', f'"{name}"').replace("raw.rides", f"raw.{name}")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text + more


def ids(name: str) -> set[str]:
    return {f"{name}_{kind}" for kind in KINDS}


class DagFile:
    """``dags/streams.py``, loaded once: each call makes all DAGs, as a DAG processor that parses it does."""

    def __init__(self, file: Path) -> None:
        self._all_dags: Callable[[], Iterator[Any]] = runpy.run_path(str(file))["all_dags"]

    def __call__(self) -> dict[str, Any]:
        dags = list(self._all_dags())
        found = {dag.dag_id: dag for dag in dags}
        assert len(found) == len(dags)
        return found


def reason(dags: Mapping[str, Any], dag_id: str = f"{NAME}_stream") -> str:
    """What the red task of a DAG says."""
    (task,) = dags[dag_id].tasks
    return str(task.reason)


def dumped(value: Any) -> str:
    """A value of TOML, its tables inline."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, list):
        return f"[{', '.join(map(dumped, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{dumped(key)} = {dumped(one)}' for key, one in value.items())}}}"
    return str(value)


def document(values: Mapping[str, Any]) -> str:
    return "".join(f"{dumped(key)} = {dumped(value)}\n" for key, value in values.items())


# A stream over a topic that others fill.
OF_OTHERS = """
name = "orders"
schema = "schema.ddl"
table = "shop.orders"
[topic]
name = "shop.orders"
managed = false
[budget]
versions_per_batch = 10
"""
# The same with a section of its records, to be formatted: its line `schema`, and the section's.
OF_OTHERS_RECORDS = """
name = "orders"
table = "shop.orders"
{schema}
[topic]
name = "shop.orders"
managed = false
[budget]
versions_per_batch = 1
[records]
{records}
"""
