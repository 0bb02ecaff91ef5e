"""Batches and signs as they are kept: a line of JSON each, in objects that are written once.

Objects lie beside the ledger, at ``<ledger>/progress/<stream>/<query>/<day>/<time>-<process>.jsonl``: ``day``
and ``time`` (UTC, to the microsecond) say when it was written, ``process`` which process wrote it, by the
moment of its start. So what is wanted of a time is listed, and nothing else.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from datetime import UTC, datetime
from urllib.parse import quote, unquote

from pydantic import TypeAdapter, ValidationError

from sluice.model.progress import Entry, Progress, Sign

FOLDER = "progress"
# Of one width each: the order of the texts is the order of the moments.
_DAY, _TIME, _START = "%Y-%m-%d", "%H%M%S.%f", "%Y%m%dT%H%M%SZ"
_KEY = re.compile(r"(\d{4}-\d\d-\d\d)/(\d{6}\.\d{6})-[^/]+\.jsonl$")
_ENTRY: TypeAdapter[Progress | Sign] = TypeAdapter(Progress | Sign)


def to_line(entry: Entry) -> str:
    """One line of JSON, without its end; what there is none of is left out."""
    kept = {name: value for name, value in asdict(entry).items() if value not in (None, "", {})}
    return json.dumps(kept, separators=(",", ":"), allow_nan=False)


def from_line(line: str | bytes) -> Entry:
    """What :func:`to_line` wrote; a key that is not known is left out, so that an older reader understands a
    newer writer. Raises ValueError saying what is wrong with the line."""
    try:
        return _ENTRY.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{where}: {first['msg']}" if where else first["msg"]) from error


def stream_prefix(stream: str) -> str:
    """Under which the queries of a stream lie, below the ledger's prefix."""
    return f"{FOLDER}/{stream}/"


def query_prefix(stream: str, query: str) -> str:
    return f"{stream_prefix(stream)}{quote(query, safe='')}/"


def query_of(prefix: str) -> str:
    """The query's name out of its prefix."""
    return unquote(prefix.rstrip("/").rpartition("/")[2])


def day_of(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime(_DAY)


def time_of(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime(_TIME)


def object_key(stream: str, query: str, at: float, start: float) -> str:
    """Of what a process that began at ``start`` writes ``at`` a moment; both in seconds since 1970."""
    process = datetime.fromtimestamp(start, UTC).strftime(_START)
    return f"{query_prefix(stream, query)}{day_of(at)}/{time_of(at)}-{process}.jsonl"


def written_at(key: str) -> float | None:
    """When the object of a key was written; None for a key that is none."""
    found = _KEY.search(key)
    if found is None:
        return None
    try:
        return datetime.strptime("".join(found.groups()), _DAY + _TIME).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
