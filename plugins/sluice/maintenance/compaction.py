"""A compaction of a stream's tables: what it may rewrite, and its verification without Spark.

The run pins a date and the newest snapshots for its later attempts and for the verification. That compares
every rewrite that no earlier run has verified: one may publish when its run has ended. The ledger gets a
document of each that passes; until then no run deletes files.
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sluice.config.tables import compacted_tables
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused, check_no_problems
from sluice.core.json_record import Document
from sluice.core.messages import aligned
from sluice.core.tables.for_each import for_each_table
from sluice.core.tables.rewrites import Rewrites, is_of_change, verified_document
from sluice.core.tables.storage import KEEP_REWRITES
from sluice.ledger import run_documents
from sluice.ledger.keys import run_key
from sluice.ledger.verified_rewrites import VerifiedRewrites
from sluice.loads.heads import head_of

if TYPE_CHECKING:
    from sluice.clients.lake.catalog import Lake
    from sluice.config.stream import StreamSpec
    from sluice.core.tables.storage import Rewrite
    from sluice.ledger.documents import Ledger
    from sluice.systems import Systems

log = logging.getLogger(__name__)


def pin_compaction(
    lake: Lake,
    spec: StreamSpec,
    ledger: Ledger,
    run_id: str,
    given: str | None,
    at: datetime,
    triggered: datetime | None = None,
) -> Document:
    """The run's date and the newest snapshots, pinned by its first attempt. ``given``, ``at``: as of
    :func:`closed_before`. Raises Refused if the run was pinned with another date, or long before it was
    ``triggered``."""

    def create() -> Document:
        before = closed_before(given, at)
        heads = lake.heads(*compacted_tables(spec))
        return {
            "run_id": run_id,
            "before": before.isoformat(),
            "main": {name: asdict(head) for name, head in heads.items()},
            "at": datetime.now(UTC).isoformat(),
        }

    pinned = run_documents.pin(ledger, run_id, "compaction", create, triggered)
    if given and closed_before(given, at).isoformat() != pinned["before"]:
        raise Refused(
            f"run id {run_id!r} compacts the dates before {pinned['before']}, and compact_before is "
            f"{given}: a run id keeps its date, also when its run is deleted. Fix: trigger a run with "
            "another run id",
            ErrorCode.RUN_ID_REUSED,
        )
    log.info("compaction pinned: before=%s main=%s", pinned["before"], pinned["main"])
    return pinned


def closed_before(given: str | None, at: datetime) -> date:
    """The date ``given`` (ISO 8601), by default the day before ``at`` in UTC, which leaves late records room.

    Raises Refused for a date after ``at``: the stream still writes to it, and would repeat its batches.
    """
    today = at.astimezone(UTC).date()
    if not given:
        return today - timedelta(days=1)
    try:
        before = date.fromisoformat(given)
    except ValueError as error:
        raise Refused(
            f"compact_before = {given!r} is no date. Fix: write it as 2026-11-20", ErrorCode.INVALID_PARAMETER
        ) from error
    if before > today:
        raise Refused(
            f"compact_before = {given} is later than {today}: the stream still writes to that date",
            ErrorCode.INVALID_PARAMETER,
        )
    return before


class CompactionVerification:
    """The verification of a run: since it began, ``main`` of each table got only batches of its writer and
    rewrites, and each rewrite holds the same rows.

    A rewrite keeps the number of rows, and its added files hold exactly the rows of its removed files: of
    the stream's table the offsets, of the others all columns but bytes.
    """

    def __init__(self, systems: Systems, spec: StreamSpec, ledger: Ledger, run_id: str) -> None:
        self.spec, self.ledger, self.run_id = spec, ledger, run_id
        self._systems, self._lake = systems, systems.lake
        self.pinned = ledger.require(run_key(run_id, "compaction"), "compact")

    def run(self) -> dict[str, Any]:
        """Verify each table; return numbers of each. Raises Refused with what differs, which it does not
        revert: the message has the snapshot, and the metadata files to go back to."""
        # Not the pinned ones alone: the job sees a table that was created since, too.
        existing = self._lake.heads(*compacted_tables(self.spec))
        tables = for_each_table(existing, self._verify, log.exception)
        return {"before": self.pinned["before"], "tables": tables}

    def _verify(self, name: str) -> dict[str, int]:
        from sluice.clients.lake.snapshots import rewrites as compaction

        table = self._lake.table(name)
        is_of_stream = name == self.spec.table
        columns = compaction.OFFSETS if is_of_stream else compaction.without_binary(table)
        # Those of changes are verified by their own runs.
        pending = VerifiedRewrites(self.ledger).unverified(Rewrites.of(table.properties))
        due = [one for one in pending.ids if not is_of_change(one)]
        rewrites = compaction.since(table, head_of(self.pinned, name), columns, due)
        log.info("%s", report(name, rewrites))
        problems = [problem for rewrite in rewrites for problem in rewrite.problems()]
        fix = self._fix(name) if problems else ""
        kept = {rewrite.id for rewrite in rewrites}
        problems += [_expired_message(one) for one in due if one not in kept]
        self._confirm(name, rewrites)
        check_no_problems(log, ErrorCode.COMPACTION_NOT_VERIFIED, problems, f"{name} changed", fix)
        return {
            "rewrites": sum(1 for rewrite in rewrites if rewrite.removed.files),
            "files_before": sum(rewrite.removed.files for rewrite in rewrites),
            "files_after": sum(rewrite.added.files for rewrite in rewrites),
            "rows": sum(rewrite.added.records for rewrite in rewrites),
        }

    def _confirm(self, name: str, rewrites: list[Rewrite]) -> None:
        """Record those of which every snapshot passes."""
        failed = {rewrite.id for rewrite in rewrites if rewrite.problems()}
        for rewrite in {one.id for one in rewrites if one.id} - failed:
            snapshots = {one.snapshot_id: one.names for one in rewrites if one.id == rewrite}
            document = verified_document(name, self.run_id, snapshots, datetime.now(UTC).isoformat())
            VerifiedRewrites(self.ledger).confirm(rewrite, document)

    def _fix(self, name: str) -> str:
        """How to go back. Not to a snapshot: a busy stream has let it expire."""
        at, records = datetime.fromisoformat(self.pinned["at"]), self._systems.history(self.spec.name)
        before = next((record for record in records.metadata() if record.at <= at), None)
        found = before.tables if before else {}
        # The others must not go back alone: records that batches rejected or queries counted would be lost.
        names = [name] if name == self.spec.table else list(found)
        files = ", ".join(f"{one} at {found[one]}" for one in names if one in found)
        return (
            f". Fix: stop the stream, and register {files or 'the metadata file from before the run'} again "
            "(docs/operating.md, Compaction verification failed)"
        )


def _expired_message(rewrite: str) -> str:
    return (
        f"rewrite {rewrite} was published, and its snapshots have expired before it was verified: they are "
        f"kept for {KEEP_REWRITES}. Fix: compare numbers of rows (docs/operating.md, Compaction verification "
        "failed)"
    )


def report(table: str, rewrites: list[Rewrite]) -> str:
    """For the log: each rewrite and whether its rows are the same."""
    rows = [
        [
            rewrite.snapshot_id,
            rewrite.operation,
            rewrite.removed.files,
            rewrite.added.files,
            rewrite.removed.records,
            rewrite.added.records,
            "FAILED" if rewrite.problems() else "same rows",
        ]
        for rewrite in rewrites
    ]
    head = ["snapshot", "operation", "files before", "after", "rows before", "after", "result"]
    return f"{table}: {aligned(head, rows) if rows else 'no file was rewritten'}"
