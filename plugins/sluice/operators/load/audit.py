"""A step of a load: compare its objects in the bucket with the stream's budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sluice.hooks import failures
from sluice.hooks.failures import failed
from sluice.model.error_codes import ErrorCode
from sluice.model.spec.ledger import run_key
from sluice.model.verification.storage import BudgetCheck, PrefixUsage
from sluice.operators.base import StreamOperator
from sluice.operators.load import inventory

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.operators.load.inventory import Inventory

# S3 has whole seconds, and another clock than the driver.
CLOCK_SLACK = timedelta(seconds=5)
NAMED = 10


@dataclass(frozen=True)
class UnreferencedObjects:
    """Data objects that no retained snapshot references. ``orphans`` are older than the newest commit, so
    they will never be committed; ``too_recent`` ones may belong to a batch in flight."""

    orphans: list[str]
    too_recent: list[str]


def find_unreferenced(
    data: Mapping[str, datetime], known: set[str], newest_commit: datetime | None
) -> UnreferencedObjects:
    """Before the first commit all unreferenced objects are too recent."""
    uris = sorted(set(data) - known)
    old = {uri for uri in uris if newest_commit is not None and data[uri] < newest_commit - CLOCK_SLACK}
    return UnreferencedObjects([uri for uri in uris if uri in old], [uri for uri in uris if uri not in old])


def metadata_files(written_at_ms: list[int], at_ms: int, until_ms: int | None) -> int | None:
    """Number of metadata files of the commit at ``at_ms``: those until the next commit (``until_ms``).

    None if the log (``written_at_ms``, oldest first) no longer reaches back to it.
    """
    if not written_at_ms or written_at_ms[0] > at_ms:
        return None
    return sum(at_ms <= written < (until_ms or written + 1) for written in written_at_ms)


class AuditOperator(StreamOperator):
    """Count objects, versions, delete markers and bytes before and after; compare with ``[budget]``.

    Fails without retries if a batch made more versions than allowed, a delete marker was added, or a key was
    overwritten with other content. Orphans are only counted and logged: they cost money, and are no error of
    the load.
    """

    does = "counts objects, versions and delete markers"
    fails_if = "the stream's budget is exceeded"

    def take_inventory(self) -> Inventory:
        return inventory.take(self.platform_hook, self.spec)

    def work(self, context: Context) -> dict[str, Any]:
        before = self.ledger.require(run_key(context["run_id"], "baseline"), "provision_topic")
        # The listing first: metadata read after it references all that was committed before.
        seen = self.take_inventory()
        unreferenced, batches, costs = self._from_metadata(seen, before["snapshot_id"])
        past = {name: PrefixUsage(**count) for name, count in before["counts"].items()}
        added = {name: count - past.get(name, PrefixUsage()) for name, count in seen.counts.items()}
        budget = self._budget(added, seen.rewritten, costs)
        self.log.info("%s", report(seen.counts, added, budget, batches, unreferenced))
        for label, uris in (("orphan", unreferenced.orphans), ("overwritten", seen.rewritten)):
            for uri in uris[:NAMED]:
                self.log.warning("%s: %s", label, uri)
        over = [line.message() for line in budget if not line.ok]
        if over:
            raise failed(ErrorCode.OVER_BUDGET, f"over budget: {'; '.join(over)}")
        return {
            "counts": {
                name: {
                    "before": _dict(count - added[name]),
                    "after": _dict(count),
                    "added": _dict(added[name]),
                }
                for name, count in seen.counts.items()
            },
            "batches": batches,
            "versions_per_batch": max(costs, default=None),
            "orphans": len(unreferenced.orphans),
            "in_flight": len(unreferenced.too_recent),
        }

    def _from_metadata(
        self, seen: Inventory, since: int | None
    ) -> tuple[UnreferencedObjects, int, list[int]]:
        from sluice.clients.lake import files
        from sluice.clients.lake.catalog import commits, metadata_times

        lake = self.platform_hook.lake
        table, quarantine = lake.table(self.spec.table), lake.table(self.spec.quarantine_table)
        known = files.known_files(table) | files.known_files(quarantine)
        newest = max((snapshot.timestamp_ms for snapshot in table.snapshots()), default=None)
        unreferenced = find_unreferenced(
            seen.data, known, None if newest is None else datetime.fromtimestamp(newest / 1000, UTC)
        )
        since_then, written = list(commits(table, since))[::-1], metadata_times(table)
        batches, costs = 0, []
        for number, commit in enumerate(since_then):
            if commit.kind != "batch":
                continue
            batches += 1
            following = round(since_then[number + 1].at * 1000) if number + 1 < len(since_then) else None
            own = metadata_files(written, round(commit.at * 1000), following)
            if own is not None:
                costs.append(files.versions_written(table, commit.snapshot_id) + own)
        return unreferenced, batches, costs

    def _budget(
        self, added: Mapping[str, PrefixUsage], rewritten: list[str], costs: list[int]
    ) -> list[BudgetCheck]:
        limits = self.spec.budget
        lines = [
            BudgetCheck(
                "delete markers added",
                sum(count.delete_markers for count in added.values()),
                limits.delete_markers,
            ),
            BudgetCheck("keys overwritten with other content", len(rewritten), 0),
        ]
        if costs:
            lines.append(
                BudgetCheck("versions of the costliest batch", max(costs), limits.versions_per_batch)
            )
        return lines


def report(
    counts: Mapping[str, PrefixUsage],
    added: Mapping[str, PrefixUsage],
    budget: list[BudgetCheck],
    batches: int,
    unreferenced: UnreferencedObjects,
) -> str:
    """Tables for the log; in brackets what the load added."""
    rows = [
        [name, *(f"{getattr(count, unit):,} (+{getattr(added[name], unit):,})" for unit in _UNITS)]
        for name, count in counts.items()
    ]
    lines = [[line.name, f"{line.value}", f"{line.limit:g}", "ok" if line.ok else "OVER"] for line in budget]
    notes = (
        f"{batches} batches published since; {len(unreferenced.orphans)} orphans; "
        f"{len(unreferenced.too_recent)} data objects not committed yet"
    )
    if not batches:
        notes += "; no batch, so no versions per batch"
    return (
        failures.table(["what", "objects", "versions", "delete markers", "bytes"], rows)
        + "\n"
        + failures.table(["budget", "value", "limit", "result"], lines)
        + f"\n\n{notes}"
    )


_UNITS = ("objects", "versions", "delete_markers", "bytes")


def _dict(count: PrefixUsage) -> dict[str, int]:
    return {unit: getattr(count, unit) for unit in _UNITS}
