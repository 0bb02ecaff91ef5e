"""The loaded rows of sources, in objects beside the table: ``<location>/loaded/<source id>/<name>.json``.

A batch's rows are in its own snapshots first, which expire; the writer records them here before. What a batch
needs is looked up by its sources alone, so no cost follows the number of sources that were ever loaded.

An object is written once and never changed, so a suspended writer cannot take rows back that a later one
recorded. Each batch is recorded with its offsets: after a restored catalog, batches that ``main`` has lost do
not count until the stream's ends have passed them again, and then their records are the same. What a change
brought or closed is recorded with the changes up to it, and counts as long as ``main`` has that one: a stream
that reads its offsets again does not make it again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluice.clients.s3.requests import split
from sluice.core.changes.published import Changes
from sluice.core.offsets.deduplication import LoadedRows
from sluice.core.offsets.ranges import OffsetRanges

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

THREADS = 8


@dataclass(frozen=True)
class BatchRows:
    """The loaded rows of one published batch, and the offsets of all its records. ``changes``: of a change,
    those that are published with it."""

    offsets: OffsetRanges
    rows: LoadedRows
    changes: Changes | None = None

    def entry(self, source: str) -> dict[str, Any]:
        """What is recorded of a source."""
        found = {
            "offsets": json.loads(self.offsets.to_json()),
            "rows": json.loads(self.rows[source].to_json()),
        }
        if self.changes is not None:
            found["change"] = [self.changes.count - 1, self.changes.newest[-1]]
        return found


class LoadedRowsStore:
    """The loaded rows of one table, by source, for one writer; those of the newest sources stay in memory.

    So the cost of a batch does not follow the number of its source's batches: a generator's source may have
    one every few seconds for hours.
    """

    def __init__(self, client: S3Client, location: str) -> None:
        """``location``: the table's ``s3://bucket/…``."""
        self._client = client
        self._bucket, prefix = split(location)
        self._prefix = f"{prefix}/loaded"
        # What the store has of the sources that were asked for since the last recording, or are in it.
        self._known: dict[str, OffsetRanges] = {}

    def record(self, name: str, batches: Sequence[BatchRows]) -> None:
        """Write one object ``name`` per source of these batches. Raises botocore's errors, also if one is
        there; recording the same batches again under another name is harmless."""
        documents: dict[str, list[dict[str, Any]]] = {}
        for batch in batches:
            for source in batch.rows.sources:
                documents.setdefault(source, []).append(batch.entry(source))
        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(lambda item: self._put(name, *item), documents.items()))
        # Those of earlier sources are dropped; of a source that was not looked up there may be more.
        known = {source: self._known[source] for source in documents if source in self._known}
        for source in known:
            for batch in batches:
                known[source] = known[source].union(batch.rows[source])
        self._known = known

    def of(self, sources: Iterable[str], ends: Mapping[int, int], changes: Changes) -> LoadedRows:
        """The recorded rows of these sources at offsets below ``ends`` (partition -> end offset of ``main``),
        but for those of changes that are none of ``changes``, which ``main`` has.

        Costs one LIST per unknown source, and one GET per object. Raises botocore's errors.
        """
        requested = set(sources)
        missing = sorted(requested - self._known.keys())
        found = dict.fromkeys(missing, OffsetRanges())
        published = OffsetRanges.from_ends({}, ends)
        with ThreadPoolExecutor(THREADS) as threads:
            # In two steps: a failover within a long load has one source, of many objects.
            listed = zip(missing, threads.map(self._keys, missing), strict=True)
            keys = [(source, key) for source, of_source in listed for key in of_source]
            objects = threads.map(lambda one: self._entries(one[1]), keys)
            for (source, _), entries in zip(keys, objects, strict=True):
                for entry in entries:
                    is_published = published.covers(OffsetRanges.of(entry["offsets"]))
                    if is_published and _is_made(entry.get("change"), changes):
                        found[source] = found[source].union(OffsetRanges.of(entry["rows"]))
        self._known |= found
        return LoadedRows({source: rows for source in requested if (rows := self._known[source])})

    def forget(self) -> None:
        """Look up everything again: the catalog may have been restored, or another writer recorded rows."""
        self._known = {}

    def _keys(self, source: str) -> list[str]:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=f"{self._prefix}/{source}/"
        )
        return [listed["Key"] for page in pages for listed in page.get("Contents", [])]

    def _entries(self, key: str) -> list[dict[str, Any]]:
        body = self._client.get_object(Bucket=self._bucket, Key=key)["Body"]
        entries: list[dict[str, Any]] = json.loads(body.read())
        return entries

    def _put(self, name: str, source: str, entries: list[dict[str, Any]]) -> None:
        self._client.put_object(
            Bucket=self._bucket,
            Key=f"{self._prefix}/{source}/{name}.json",
            Body=json.dumps(entries, separators=(",", ":")).encode(),
            ContentType="application/json",
            IfNoneMatch="*",
        )


def _is_made(change: Sequence[Any] | None, changes: Changes) -> bool:
    """Whether a recorded ``change`` (number of those before it, id) is published in this place: another
    attempt has an entry of its own. True of a batch. One that is not named any more counts, too: many came
    after it."""
    return change is None or changes.after(change[0]) in (change[1], "")
