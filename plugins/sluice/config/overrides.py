"""An installation's own values for times and limits of a stream.toml."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

from sluice.config.reading.files import declared_text
from sluice.config.reading.toml import ConfigError, toml
from sluice.config.reading.values import problems as value_problems
from sluice.config.reading.values import shown

log = logging.getLogger(__name__)

# Names the file: one table per stream, with tables and keys as in its stream.toml.
VARIABLE = "SLUICE_STREAM_OVERRIDES"
# The keys that may be overridden; * is any name. No topics, tables, columns or queries: a process without
# the overrides would load into another place. Not interval_seconds, which is the DAG's schedule.
KEYS = (
    *("consumer.trigger_seconds", "consumer.max_offsets_per_trigger", "consumer.by_reference"),
    *("feed.read_timeout_seconds", "feed.lock_seconds", "feed.max_in_flight"),
    *("feed.resume.finding", "feed.resume.position"),
    # Changes no column: a person's way on at night, without a release.
    "records.on_incompatible",
    "queries.*.trigger_seconds",
    *("supervision.stall_timeout_seconds", "supervision.startup_timeout_seconds"),
    *("supervision.lag_window_seconds", "supervision.retention_margin_seconds"),
    *("supervision.max_restarts", "supervision.restart_window_seconds"),
    *("supervision.shutdown_grace_seconds", "supervision.max_rejected_percent"),
    "cluster.*",
)


def check(file: str, streams: Collection[str]) -> None:
    """Raises ConfigError for whatever is wrong in the file, but for values, which are checked with each
    declaration."""
    for problem in problems(file, streams):
        raise ConfigError(problem)
    for stream in _document(file):
        of_stream(file, stream)


def problems(file: str, streams: Collection[str]) -> list[str]:
    """What is wrong and concerns none of ``streams``: an unreadable file, names of no stream."""
    try:
        document = _document(file)
    except ConfigError as error:
        return [str(error)]
    known = ", ".join(sorted(streams)) or "(none)"
    return [
        f"{file}: {shown(name)} is no stream; streams are {known}. Fix: correct or remove this table"
        for name in document
        if name not in streams
    ]


def of_stream(file: str, stream: str) -> Mapping[str, Any]:
    """The overriding tables of a stream; their values are checked with the declaration. None if the file
    cannot be read: that must stop no stream, and the stream is right without.

    Raises ConfigError for what is wrong in the stream's table.
    """
    try:
        tables = _document(file).get(stream, {})
    except ConfigError as error:
        log.warning("no overrides of stream %s: %s", stream, error)
        return {}
    if not isinstance(tables, dict):
        raise ConfigError(f"{file}: {stream} is {shown(tables)}. Fix: write tables, [{stream}.supervision]")
    for problem in value_problems(tables, stream):
        raise ConfigError(f"{file}: {problem}")
    for key in _keys(tables):
        if not any(fnmatchcase(key, known) for known in KEYS):
            raise ConfigError(
                f"{file}: {stream}.{key} cannot be overridden; keys are {', '.join(KEYS)}. Fix: remove it"
            )
    return tables


def _document(file: str) -> dict[str, Any]:
    try:
        path = Path(file).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"{VARIABLE}={shown(file)}: {error}. Fix: write the whole path") from error
    try:
        text = declared_text(path)
    except ConfigError as error:
        raise ConfigError(f"{VARIABLE}: {error}, or set the variable empty") from error
    return _parsed(text, file)


@lru_cache(maxsize=1)
def _parsed(text: str, file: str) -> dict[str, Any]:
    """Parsed once for all streams, which only read it. Raises ConfigError."""
    return toml(text, file)


def merge(declared: Mapping[str, Any], overriding: Mapping[str, Any]) -> dict[str, Any]:
    """``declared`` with the values of ``overriding``, table by table and key by key."""
    merged = dict(declared)
    for key, value in overriding.items():
        below = merged.get(key)
        merged[key] = merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _keys(tables: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in tables.items():
        if isinstance(value, dict):
            yield from _keys(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"
