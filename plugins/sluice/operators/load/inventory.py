"""What was written since a load began: the tables' snapshots before it, and the objects since."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sluice.hooks.load_plan import now
from sluice.model.spec.ledger import run_key
from sluice.model.verification.storage import WrittenObject, check_object, metadata_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sluice.clients.lake.catalog import Head, Lake
    from sluice.clients.ledger import Ledger
    from sluice.clients.objects import Entry
    from sluice.model.spec.stream import StreamSpec
    from sluice.model.verification.storage import ObjectCheck


@dataclass(frozen=True)
class WrittenSince:
    """The objects of ``main`` that were written since a snapshot. ``batches``: number of kept batches since;
    ``costs``: versions of each, as far as the metadata log reaches back."""

    objects: list[WrittenObject]
    batches: int
    costs: list[int]


def record_before(lake: Lake, spec: StreamSpec, ledger: Ledger, run_id: str) -> dict[str, Any]:
    """Write ``baseline.json`` for the run if there is none; return the one there is."""

    def create() -> dict[str, Any]:
        heads = lake.heads(spec.table, spec.quarantine_table)
        main = {name: asdict(head) for name, head in heads.items()}
        return {"run_id": run_id, "main": main, "at": now()}

    return ledger.pin(run_key(run_id, "baseline"), create)


def written_since(lake: Lake, name: str, head: Head | None) -> WrittenSince:
    """By metadata: manifests that are newer than ``head``, and the manifest list of each kept batch since.

    If it is unknown whether the numbers since are of one history (the snapshot has expired and another writer
    publishes, or the catalog was restored): since the oldest kept snapshot.
    """
    from sluice.clients.lake import files
    from sluice.clients.lake.catalog import ancestors, commits, metadata_log, sequence_since

    table = lake.table(name)
    oldest = min((snapshot.sequence_number or 0 for snapshot in ancestors(table)), default=0)
    objects = files.written_since(table, sequence_since(table, [head]) or (oldest - 1 if head else 0))
    since, log = list(commits(table, head.snapshot_id if head else None))[::-1], metadata_log(table)
    batches, costs = 0, []
    for number, commit in enumerate(since):
        if commit.kind != "batch":
            continue
        batches += 1
        until = round(since[number + 1].at * 1000) if number + 1 < len(since) else None
        own = metadata_files([at for at, _ in log], round(commit.at * 1000), until)
        if own is not None:
            costs.append(files.versions_written(table, commit.snapshot_id) + own)
    if since:
        objects += [WrittenObject(uri) for at, uri in log if at >= round(since[0].at * 1000)]
    return WrittenSince(objects, batches, costs)


def check_objects(
    objects: Sequence[WrittenObject], entries: Callable[[str], Iterable[Entry]]
) -> list[ObjectCheck]:
    """Each object as the bucket has it: one request each. ``entries``: versions and delete markers of an
    address."""
    from sluice.io.s3 import at_once

    found = at_once(objects, lambda written: list(entries(written.uri)))
    return [
        check_object(
            written,
            [(entry.etag, entry.size, entry.is_latest) for entry in versions if not entry.is_delete_marker],
            sum(entry.is_delete_marker for entry in versions),
        )
        for written, versions in zip(objects, found, strict=True)
    ]
