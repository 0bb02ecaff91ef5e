"""Generated declarations: whatever one holds, the streams beside it have their DAGs, and its own is valid
with all of them, or is red with a message. And what is there can be stored: a DAG that cannot be vanishes."""

from __future__ import annotations

import json
import string
import tomllib
from collections.abc import Mapping
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sluice.config import folders, overrides
from sluice.config import streams as stream_files
from tests.support import rides
from tests.support.declarations import (
    CONFIGURATION,
    HEALTHY,
    INVALID,
    NAME,
    VALID,
    DagFile,
    document,
    dumped,
    ids,
    make,
    reason,
    toml,
)

EXAMPLES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
# Limits of Airflow's tables.
MAX_ID, MAX_LABEL, MAX_TAG, MAX_INTEGER = 250, 2_000, 100, 2**31 - 1
REPOSITORY = ("nyc_taxi", "wiki_changes", "isp_hits")
BACKFILL = {"schedule": "@daily", "pattern": f"{NAME}/%Y-%m-%d", "start_date": "2026-01-01"}

# Whole numbers at the ends of what Python's times, databases and TOML take.
integers = st.one_of(
    st.integers(), st.sampled_from([0, -1, 2**31 - 1, 2**31, 2**53, 2**63 - 1, 2**63, 10**13, 10**400])
)
texts = st.one_of(
    st.text(max_size=30),
    st.sampled_from(["", " ", "x" * 64, "x" * 101, "x" * 5_000, "\x00", "a\nb", "{{ 7 }}", "é" * 80]),
    st.sampled_from(
        ["0 0 30 2 *", "@once", "9999-12-31", "0001-01-01", "_pos", "raw.x.y", "$ref", "../x.ddl"]
    ),
)
scalars = st.one_of(
    integers,
    texts,
    st.booleans(),
    st.floats(),
    st.dates(),
    st.times(),
    st.datetimes(timezones=st.sampled_from([None, UTC])),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
Document = dict[str, Any]


def declared(name: str) -> Document:
    """A stream of the repository as it would be declared under the fuzzed name."""
    found = tomllib.loads((folders.STREAMS / name / "stream.toml").read_text())
    if name == "nyc_taxi":
        found["backfill"] = BACKFILL
    return {**found, "name": NAME}


DECLARED = {name: declared(name) for name in REPOSITORY}
SCHEMAS = {name: stream_files.load(name).schema_file for name in REPOSITORY}


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List the paths of every table, list and value in a document."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, below in pairs for found in paths(below, (*path, key)))]


def changed(value: Any, path: tuple[Any, ...], new: Any, kind: str) -> Any:
    """The document with the value at ``path`` replaced, removed, or ``new`` added to its table."""
    if not path:
        return (
            {**value, **new} if kind == "add" and isinstance(value, dict) and isinstance(new, dict) else new
        )
    key, *below = path
    if isinstance(value, list):
        return [changed(one, tuple(below), new, kind) if n == key else one for n, one in enumerate(value)]
    if kind == "remove" and not below:
        return {name: one for name, one in value.items() if name != key}
    return {**value, key: changed(value[key], tuple(below), new, kind)}


@st.composite
def declarations(draw: st.DrawFn) -> tuple[str, str]:
    """The stream of the repository, and its declaration with one to three changes."""
    name = draw(st.sampled_from(REPOSITORY))
    found: Any = DECLARED[name]
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(paths(found)[1:] or [()]))
        kind = draw(st.sampled_from(["replace", "replace", "remove", "add"]))
        new = draw(st.dictionaries(texts, values, min_size=1, max_size=2) if kind == "add" else values)
        found = changed(found, path, new, kind)
    return name, document(found) if isinstance(found, dict) else dumped(found)


@pytest.fixture
def check(streams: Path, dag_file: DagFile) -> Any:
    """Return a check whether a declaration beside two valid streams is valid."""

    def checked(content: str | bytes, schema: str = json.dumps(rides.SCHEMA)) -> bool:
        folder = make(streams, NAME, content, schema)
        for name in ("schema.ddl", "schema.avsc"):
            # Both, so that the declaration decides.
            (folder / name).write_text(schema) if schema else None
        dags = dag_file()
        red = set(dags) - {CONFIGURATION}
        assert red >= HEALTHY
        own = red - HEALTHY
        is_valid = ids(NAME) <= own
        assert is_valid or own == INVALID
        if not is_valid:
            told = reason(dags)
            assert "Fix: " in told
            assert len(told) < 1_500
            assert told.isprintable()
        for dag_id in own | ({CONFIGURATION} & set(dags)):
            check_stored(dags[dag_id])
        return is_valid

    return checked


def check_stored(dag: Any) -> None:
    """As Airflow's DAG processor stores a DAG, and its scheduler reads it."""
    from airflow.serialization.serialized_objects import DagSerialization

    assert len(dag.dag_id) <= MAX_ID
    assert len(dag.dag_display_name) <= MAX_LABEL
    assert all(len(tag) <= MAX_TAG for tag in dag.tags)
    assert 0 < dag.max_active_runs <= MAX_INTEGER
    text = json.dumps(DagSerialization.to_dict(dag), allow_nan=False)
    assert "\\u0000" not in text
    text.encode()
    stored = DagSerialization.from_dict(json.loads(text))
    stored.next_dagrun_info(last_automated_run_info=None)
    for task in stored.tasks:
        assert "\x00" not in f"{task.task_id}{task.owner}"


@EXAMPLES
@given(found=declarations())
@example(found=("isp_hits", document({**DECLARED["isp_hits"], "title": "x" * 5_000})))
def test_a_changed_declaration_concerns_its_own_stream(found: tuple[str, str], check: Any) -> None:
    name, text = found
    check(text, SCHEMAS[name].read_text())


@pytest.mark.parametrize("name", REPOSITORY)
def test_without_a_change_it_is_valid(name: str, check: Any) -> None:
    """Else the test above would prove nothing."""
    assert check(document(DECLARED[name]), SCHEMAS[name].read_text())


@EXAMPLES
@given(content=st.one_of(st.binary(max_size=60), st.text(string.printable, max_size=60)))
@example(content=b"\xef\xbb\xbf" + toml().encode())
@example(content=toml().replace("\n", "\r\n"))
def test_any_bytes_concern_their_own_stream(content: str | bytes, check: Any) -> None:
    check(content)


@EXAMPLES
@given(
    at=st.integers(0, len(toml())),
    length=st.integers(0, 20),
    new=st.text(string.punctuation + string.whitespace + "ae1", max_size=10),
)
def test_a_slip_of_the_keyboard_concerns_its_own_stream(at: int, length: int, new: str, check: Any) -> None:
    check(toml()[:at] + new + toml()[at + length :])


@EXAMPLES
@given(
    schema=st.recursive(
        st.sampled_from(["string", "long", "null", "In", "", "_pos"]) | values,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.fixed_dictionaries(
                {
                    "type": st.sampled_from(["record", "map", "array", "enum", "fixed"]) | inner,
                    "name": texts,
                    "fields": st.lists(st.fixed_dictionaries({"name": texts, "type": inner}), max_size=3),
                    "items": inner,
                    "values": inner,
                }
            )
        ),
        max_leaves=12,
    )
)
def test_any_schema_concerns_its_own_stream(schema: Any, check: Any) -> None:
    check(toml(), json.dumps(schema, default=str))


@EXAMPLES
@given(tables=st.dictionaries(st.sampled_from([NAME, "other", "sluice", "A b"]), values, max_size=3))
@example(tables={NAME: {"supervision": {"stall_timeout_seconds": 10**12}}})
@example(tables={NAME: {"cluster": {"driver_memory": "x" * 500}}, "other": {}})
def test_any_overrides_concern_the_stream_that_they_name(
    tables: Mapping[str, Any], check: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "overrides.toml"
    file.write_text(document(tables))
    monkeypatch.setenv(overrides.VARIABLE, str(file))
    check(toml())
    assert set(VALID) <= {spec.name for spec in stream_files.load_valid().specs}
