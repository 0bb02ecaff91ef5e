"""An installation's own values of a stream."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sluice.config import overrides, streams
from sluice.config.reading.toml import ConfigError
from tests.support.raising import raising


def overriding(folder: Path, text: str) -> dict[str, str]:
    """The environment of an installation with these overrides."""
    file = folder / "overrides.toml"
    file.write_text(text)
    return {overrides.VARIABLE: str(file)}


def test_overrides_replace_a_streams_values_key_by_key(tmp_path: Path) -> None:
    declared = streams.load("wiki_changes", {})
    environ = overriding(
        tmp_path,
        "[wiki_changes.supervision]\nstall_timeout_seconds = 15\nmax_restarts = 1\n"
        "max_rejected_percent = 20\n"
        "[wiki_changes.feed]\nread_timeout_seconds = 7\n",
    )
    assert declared.feed is not None
    assert streams.load("wiki_changes", environ) == replace(
        declared,
        supervision=replace(
            declared.supervision, stall_timeout_seconds=15, max_restarts=1, max_rejected_percent=20
        ),
        feed=replace(declared.feed, read_timeout_seconds=7),
    )
    assert streams.load("nyc_taxi", environ) == streams.load("nyc_taxi", {}), "another stream is as declared"


def test_without_overrides_a_stream_is_as_declared(tmp_path: Path) -> None:
    declared = streams.load("nyc_taxi", {})
    assert streams.load("nyc_taxi", {overrides.VARIABLE: ""}) == declared
    assert streams.load("nyc_taxi", overriding(tmp_path, "")) == declared


def test_what_a_stream_does_about_a_schema_may_differ_and_what_its_table_is_may_not(tmp_path: Path) -> None:
    """A stream that stopped at a schema goes on without a release."""
    file = tmp_path / "overrides.toml"
    file.write_text('[orders.records]\non_incompatible = "quarantine"\n')
    found = overrides.of_stream(str(file), "orders")
    assert found == {"records": {"on_incompatible": "quarantine"}}
    file.write_text('[orders.records]\nnew_fields = "column"\n')
    with raising(ConfigError, "orders.records.new_fields cannot be overridden"):
        overrides.of_stream(str(file), "orders")


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("nyc_taxi = 15\n", ("nyc_taxi is 15",)),
        (
            "[nyc_taxi.supervision]\nstall_minutes = 15\n",
            ("supervision.stall_minutes", "stall_timeout_seconds"),
        ),
        ('[nyc_taxi]\ntable = "raw.other"\n', ("nyc_taxi.table", "consumer.trigger_seconds")),
        ("[nyc_taxi.supervision]\ninterval_seconds = 30\n", ("nyc_taxi.supervision.interval_seconds",)),
        (
            "[nyc_taxi.supervision]\nstall_timeout_seconds = 0\n",
            ("nyc_taxi/stream.toml", "stall_timeout_seconds is 0"),
        ),
        ("[nyc_taxi.supervision]\nstall_timeout_seconds = '15'\n", ("stall_timeout_seconds: '15'",)),
    ],
    ids=["no table", "unknown key", "identity", "the schedule", "out of bounds", "wrong type"],
)
def test_wrong_overrides_are_named_with_their_file(tmp_path: Path, text: str, data: tuple[str, ...]) -> None:
    environ = overriding(tmp_path, text)
    with raising(ConfigError, environ[overrides.VARIABLE], *data):
        streams.load("nyc_taxi", environ)
    assert streams.load("isp_hits", environ) == streams.load("isp_hits", {}), "no other stream is concerned"


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (
            "[taxi.supervision]\nstall_timeout_seconds = 15\n",
            ("'taxi' is no stream", "wiki_changes"),
        ),
        ("[nyc_taxi\n", ("line 1",)),
        (None, ("No such file",)),
    ],
    ids=["unknown stream", "no TOML", "no file"],
)
def test_overrides_that_are_of_no_stream_stop_none(
    tmp_path: Path, text: str | None, data: tuple[str, ...]
) -> None:
    environ = overriding(tmp_path, text or "")
    file = environ[overrides.VARIABLE]
    if text is None:
        Path(file).unlink()
    assert streams.load("nyc_taxi", environ) == streams.load("nyc_taxi", {})
    (problem,) = streams.problems([], environ)
    assert all(word in problem for word in (file, "Fix: ", *data))
    with raising(ConfigError, file, *data):
        overrides.check(file, streams.names())
