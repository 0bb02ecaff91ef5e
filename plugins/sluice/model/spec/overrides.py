"""An installation's own values for times and limits of a stream.toml."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from sluice.model.spec.config import ConfigError, toml

# Names the file: one table per stream, with tables and keys as in its stream.toml.
VARIABLE = "SLUICE_STREAM_OVERRIDES"
# The keys that may be overridden; * is any name. No topics, tables, columns or queries: a process without
# the overrides would load into another place. Not interval_seconds, which is the DAG's schedule.
KEYS = (
    *("consumer.trigger_seconds", "consumer.max_offsets_per_trigger"),
    *("feed.read_timeout_seconds", "feed.lock_seconds", "feed.max_in_flight"),
    "queries.*.trigger_seconds",
    *("supervision.stall_timeout_seconds", "supervision.startup_timeout_seconds"),
    *("supervision.lag_window_seconds", "supervision.retention_margin_seconds"),
    *("supervision.max_restarts", "supervision.restart_window_seconds"),
    "supervision.shutdown_grace_seconds",
    "cluster.*",
)


def read(file: str, streams: Collection[str]) -> dict[str, dict[str, Any]]:
    """Stream -> overriding tables; their values are checked with the declaration.

    Raises ConfigError for an unreadable file, an unknown stream, and a key not in KEYS.
    """
    try:
        found = toml(Path(file).expanduser().read_text(encoding="utf-8"), file)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(
            f"{VARIABLE}={file}: {reason}. Fix: correct the path, or set the variable empty"
        ) from error
    for stream, tables in found.items():
        if stream not in streams or not isinstance(tables, dict):
            raise ConfigError(f"{file}: {stream!r} is no table of a stream; streams are {', '.join(streams)}")
        for key in _keys(tables):
            if not any(fnmatchcase(key, known) for known in KEYS):
                raise ConfigError(f"{file}: {stream}.{key} cannot be overridden; keys are {', '.join(KEYS)}")
    return found


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
