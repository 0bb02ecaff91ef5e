"""What a stream's queries said of themselves, read back from the bucket, the newest first.

Objects are written once, so each is read once. How many are read at a time is bounded: of a long time that
was never asked for, the older part comes with the next questions.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sluice.clients.errors import Missing, Refused
from sluice.clients.s3 import asking, split
from sluice.model.progress import Entry, Latest, Progress, latest, moment_of
from sluice.model.progress_lines import (
    day_of,
    from_line,
    query_of,
    query_prefix,
    stream_prefix,
    time_of,
    written_at,
)

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# Two hours and a half of one query at work.
MOST_READS = 300
THREADS = 8
# A query that was silent for so many days is not shown any more.
FORGOTTEN_DAYS = 7


@dataclass(frozen=True)
class Past:
    """One query: its newest batch and sign, and its batches since the moment that was asked for, the earliest
    first."""

    latest: Latest
    batches: tuple[Progress, ...]

    @property
    def query(self) -> str:
        return self.latest.query


@dataclass(frozen=True)
class StreamPast:
    """The queries of a stream, by name. Not ``complete``: older batches come with the next questions."""

    queries: tuple[Past, ...]
    complete: bool


class ProgressReader:
    """The queries of one stream. Not for several threads at once: it remembers what it has read."""

    def __init__(self, client: S3Client, ledger_uri: str, stream: str, most_reads: int = MOST_READS) -> None:
        self._client, self._stream, self._most_reads = client, stream, most_reads
        self._bucket, prefix = split(ledger_uri)
        self._root = f"{prefix}/" if prefix else ""
        self._read: dict[str, tuple[Entry, ...]] = {}

    def read(self, since: float, now: float) -> StreamPast:
        """Batches that ended from ``since`` on; both in seconds since 1970.

        A query that said nothing since then is there too, with its last words, for FORGOTTEN_DAYS. Costs a
        LIST for the stream, one or two per query, and a GET per object that was not read before. Raises
        ClientError.
        """
        wanted = {query: self._keys(query, since, now) for query in self._queries()}
        wanted = {query: keys for query, keys in wanted.items() if keys}
        complete = self._fetch(key for keys in wanted.values() for key in keys)
        queries = [
            _past(query, [entry for key in keys for entry in self._read.get(key, ())], since)
            for query, keys in sorted(wanted.items())
        ]
        return StreamPast(tuple(queries), complete)

    def _queries(self) -> list[str]:
        return [query_of(prefix) for prefix in self._folders(stream_prefix(self._stream))]

    def _keys(self, query: str, since: float, now: float) -> list[str]:
        """The keys of the objects that may hold what is wanted, the oldest first: those written since then,
        or else the newest one."""
        prefix = query_prefix(self._stream, query)
        first, last = datetime.fromtimestamp(since, UTC).date(), datetime.fromtimestamp(now, UTC).date()
        found: list[str] = []
        for number in range((last - first).days + 1):
            day = (first + timedelta(days=number)).isoformat()
            after = time_of(since) if number == 0 else ""
            found += self._objects(f"{prefix}{day}/", after)
        return found or self._last_words(prefix, day_of(now - FORGOTTEN_DAYS * 86_400))

    def _last_words(self, prefix: str, earliest: str) -> list[str]:
        days = [
            folder for folder in self._folders(prefix) if folder.rstrip("/").rpartition("/")[2] >= earliest
        ]
        return self._objects(max(days), "")[-1:] if days else []

    def _folders(self, prefix: str) -> list[str]:
        """The folders directly below a prefix, themselves without the ledger's prefix."""
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=f"{self._root}{prefix}", Delimiter="/"
        )
        with asking(f"progress {self._uri(prefix)}"):
            found = [entry["Prefix"] for page in pages for entry in page.get("CommonPrefixes", [])]
        return [folder.removeprefix(self._root) for folder in found]

    def _objects(self, prefix: str, after: str) -> list[str]:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket,
            Prefix=f"{self._root}{prefix}",
            StartAfter=f"{self._root}{prefix}{after}",
        )
        with asking(f"progress {self._uri(prefix)}"):
            found = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
        return [key.removeprefix(self._root) for key in found if written_at(key) is not None]

    def _fetch(self, keys: Iterable[str]) -> bool:
        """Read what was not read yet, the newest first, as far as is allowed at a time; forget what is not
        wanted any more. Returns whether all is read."""
        wanted = set(keys)
        self._read = {key: entries for key, entries in self._read.items() if key in wanted}
        unread = sorted(wanted - self._read.keys(), key=lambda key: written_at(key) or 0.0, reverse=True)
        now = unread[: self._most_reads]
        if now:
            with ThreadPoolExecutor(min(THREADS, len(now))) as pool:
                self._read.update(zip(now, pool.map(self._entries, now), strict=True))
        return len(unread) == len(now)

    def _entries(self, key: str) -> tuple[Entry, ...]:
        name = f"progress {self._uri(key)}"
        try:
            with asking(name):
                body = self._client.get_object(Bucket=self._bucket, Key=f"{self._root}{key}")["Body"].read()
        except Missing:
            # Removed since it was listed, by whoever tidies up: there is nothing to show of it.
            return ()
        return tuple(_entry(name, number, line) for number, line in enumerate(body.splitlines(), 1))

    def _uri(self, key: str) -> str:
        return f"s3://{self._bucket}/{self._root}{key}"


def _entry(name: str, number: int, line: bytes) -> Entry:
    try:
        return from_line(line)
    except ValueError as error:
        raise Refused(f"{name}: line {number} is no progress ({error}); remove the object") from error


def _past(query: str, entries: list[Entry], since: float) -> Past:
    batches = (entry for entry in entries if isinstance(entry, Progress) and entry.ended >= since)
    return Past(latest(query, entries), tuple(sorted(batches, key=moment_of)))
