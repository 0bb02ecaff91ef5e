"""What was written since a load began: the tables' snapshots before it, and the objects since."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.tables.storage import WrittenObject, check_object
from sluice.ledger.keys import now, run_key
from sluice.loads.heads import heads_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sluice.clients.lake.catalog import Lake
    from sluice.clients.lake.commits import Head
    from sluice.clients.s3.objects import Entry
    from sluice.config.platform_sections.lake import Lake as LakeSection
    from sluice.config.stream import StreamSpec
    from sluice.core.json_record import Document
    from sluice.core.offsets.ranges import OffsetRanges
    from sluice.core.tables.batches import Batch
    from sluice.core.tables.storage import ObjectCheck
    from sluice.ledger.batches import BatchLog
    from sluice.ledger.documents import Ledger


# Between the clocks of Airflow and of a stream's writer.
CLOCK_SLACK = timedelta(minutes=5)
NEVER = datetime.min.replace(tzinfo=UTC).isoformat()


@dataclass(frozen=True)
class WrittenSince:
    """The objects of ``main`` that were written since a snapshot. ``is_whole``: False if only those of the
    snapshots that are kept could be found."""

    objects: list[WrittenObject]
    is_whole: bool = True


@dataclass(frozen=True)
class BatchCosts:
    """Costs of a load's ``batches``. ``versions``: those that the costliest wrote, None without any;
    ``measured_until``: when the newest of them was published; ``unknown``: the load's offsets whose batch, or
    its cost, is not known."""

    batches: int
    versions: int | None
    measured_until: datetime | None
    unknown: OffsetRanges


def record_before(lake: Lake, spec: StreamSpec, ledger: Ledger, run_id: str) -> dict[str, Any]:
    """Write ``baseline.json`` for the run if there is none; return the one there is."""

    def create() -> dict[str, Any]:
        heads = lake.heads(spec.table, spec.quarantine_table)
        return {"run_id": run_id, **heads_document(heads), "at": now()}

    return ledger.pin(run_key(run_id, "baseline"), create)


def not_shown_of_files(lake: LakeSection) -> list[str]:
    """What checks of stored files cannot show, by the declaration: a line each."""
    if not lake.unseen:
        return []
    return [f"not shown, since the bucket is not listed by declaration (bucket_lists = false): {lake.unseen}"]


def not_shown_of_metadata(lake: LakeSection) -> list[str]:
    """As :func:`not_shown_of_files`, of the metadata files of tables."""
    if not lake.is_maintained_by_catalog:
        return []
    what = "earlier metadata files, which the catalog may remove; each table's newest one is checked"
    return [f'not shown, since the catalog maintains the tables (maintenance = "catalog"): {what}']


def written_since(
    lake: Lake, name: str, head: Head | None, *, is_restored: bool, has_log: bool = True
) -> WrittenSince:
    """By metadata: what manifests that are newer than ``head`` name, and the kept metadata files since.

    ``is_restored``: a catalog was since. Then sequence numbers were given again; if the snapshot has expired,
    too, only what came since the oldest kept one is known. ``has_log``: earlier metadata files are there;
    who maintains the table by itself removes them.
    """
    from sluice.clients.lake.commits import ancestors, commits, metadata_log, sequence_since
    from sluice.clients.lake.reading import files

    table = lake.table(name)
    sequence, is_whole = sequence_since(table, [head]), True
    if head and not sequence:
        # Another writer publishes: its numbers go on from the earlier one's, unless the catalog was restored.
        oldest = min((snapshot.sequence_number or 0 for snapshot in ancestors(table)), default=0)
        sequence, is_whole = (oldest - 1, False) if is_restored else (head.sequence_number, True)
    objects = files.written_since(table, sequence)
    since, log = list(commits(table, head.snapshot_id if head else None)), metadata_log(table)
    if not has_log:
        log = log[-1:]
    if since:
        objects += [WrittenObject(uri) for at, uri in log if at >= round(since[-1].at * 1000)]
    return WrittenSince(objects, is_whole)


def batch_costs(
    log: BatchLog,
    expected: OffsetRanges,
    since: datetime,
    verified_at: datetime | None,
    passed: Callable[[], Document | None],
) -> BatchCosts:
    """Measure the batches that published ``expected``, by snapshots that are kept, and before them by the
    batch log. ``since``: when the load began; ``verified_at``: when all of it was published, if known;
    ``passed``: its audit, which measured the batches until then, whose manifest lists may be deleted by now.
    A LIST of that time, and a GET per batch."""
    until = verified_at + CLOCK_SLACK if verified_at else None
    found = _batch_costs(log, expected, since - CLOCK_SLACK, until, passed)
    # The catalog was restored, and the stream published records again since.
    is_later = until and found.unknown
    return _batch_costs(log, expected, since - CLOCK_SLACK, None, passed) if is_later else found


def _batch_costs(
    log: BatchLog,
    expected: OffsetRanges,
    since: datetime,
    until: datetime | None,
    passed: Callable[[], Document | None],
) -> BatchCosts:
    from sluice.clients.s3.requests import at_once

    listed = log.newest(sys.maxsize, since, until) if expected else []
    own = [one.batch for one in listed if not one.is_lost and expected.intersect(one.batch.ranges)]
    measured = at_once(own, lambda batch: _versions_written(log, batch))
    before = (passed() if None in measured else None) or {}
    measured_until = datetime.fromisoformat(before.get("measured_until") or NEVER)
    costs, unknown = list[int](), expected
    newest: datetime | None = None
    for batch, cost in zip(own, measured, strict=True):
        if cost is None and batch.published <= measured_until:
            cost = before["versions_per_batch"]
        if cost is not None:
            costs.append(cost)
            unknown = unknown.minus(batch.ranges)
            newest = max(newest or batch.published, batch.published)
    return BatchCosts(len(costs), max(costs, default=None), newest, unknown)


def check_objects(
    objects: Sequence[WrittenObject], entries: Callable[[str], Iterable[Entry]]
) -> list[ObjectCheck]:
    """Each object as the bucket has it: one request each. ``entries``: versions and delete markers of an
    address."""
    from sluice.clients.s3.requests import at_once

    found = at_once(objects, lambda written: list(entries(written.uri)))
    return [
        check_object(
            written,
            [(entry.etag, entry.size, entry.is_latest) for entry in versions if not entry.is_delete_marker],
            sum(entry.is_delete_marker for entry in versions),
        )
        for written, versions in zip(objects, found, strict=True)
    ]


def _versions_written(log: BatchLog, batch: Batch) -> int | None:
    """The objects that a batch's commits wrote: data files, manifests, manifest list, metadata files. One
    GET. None if its record does not say, or its snapshot has expired and the manifest list went with it.
    Raises Refused if the list of a snapshot that is kept is gone."""
    from pyiceberg.manifest import read_manifest_list

    from sluice.clients.lake.errors import asking

    if batch.metadata_files is None or not batch.manifest_list:
        return None
    try:
        with asking(f"manifest list of batch {batch.snapshot_id}"):
            manifests = list(read_manifest_list(log.table.io.new_input(batch.manifest_list)))
    except Refused as error:
        if error.code is ErrorCode.LAKE_FILE_MISSING and batch.snapshot_id not in log.on_main:
            return None
        raise
    own = sum(manifest.added_snapshot_id == batch.snapshot_id for manifest in manifests)
    return batch.files + own + 1 + batch.metadata_files
