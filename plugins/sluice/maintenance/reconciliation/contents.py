"""Verify that each published offset is in the table or the quarantine once, from the last run that passed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sluice.config.reading.toml import ConfigError
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import ClientError, Refused
from sluice.core.findings import Finding, FindingName
from sluice.core.json_record import Document
from sluice.core.messages import summarize
from sluice.core.tables.known_tables import TableState
from sluice.ledger.keys import OBSERVED, PORTIONS, PROOF, VERIFIED_TABLE
from sluice.ledger.run_documents import run_of_change
from sluice.maintenance.reconciliation.on_purpose import WAITS, waiting
from sluice.maintenance.reconciliation.portion_removal import useless
from sluice.maintenance.reconciliation.report import NOTHING, ONCE, check_findings, table_findings
from sluice.maintenance.reconciliation.table_contents import TableContents
from sluice.maintenance.reconciliation.verified_table import Base, Verified

if TYPE_CHECKING:
    from sluice.config.stream import StreamSpec
    from sluice.ledger.documents import Ledger
    from sluice.ledger.known_tables import KnownTables
    from sluice.ledger.marks import LedgerMarks
    from sluice.systems import Systems

log = logging.getLogger(__name__)

# Kinds of which the ledger must have the newest document that was written.
MARKED = (VERIFIED_TABLE, PROOF, OBSERVED)
# Two tables have no common commit: a batch's rejected records follow its publication, and what a change has
# published leaves the quarantine after it. What is still so after these seconds is a finding.
SETTLE_SECONDS = (5, 15, 40)
# Clocks of workers differ by less.
MAX_AHEAD = timedelta(minutes=1)
_TIME = "%Y-%m-%dT%H:%M:%SZ"
SETTLING = frozenset({FindingName.OFFSETS_MISSING, FindingName.OFFSETS_IN_BOTH})


class ContentsReconciliation:
    """The contents of a stream's table and quarantine. ``marks``: what the ledger must have; ``key``: of the
    run's document that keeps what is found once."""

    def __init__(
        self,
        systems: Systems,
        spec: StreamSpec,
        ledger: Ledger,
        tables: KnownTables,
        marks: LedgerMarks,
        key: str,
    ) -> None:
        self.spec, self.ledger, self.tables, self.marks, self.key = spec, ledger, tables, marks, key
        self._systems, self._lake, self._history = systems, systems.lake, systems.history(spec.name)
        self._names = (spec.table, spec.quarantine_table)
        self._contents = TableContents(
            systems.lake,
            *self._names,
            ledger,
            systems.batch_log,
            is_by_catalog=systems.platform.lake.is_maintained_by_catalog,
        )

    def run(self, *, is_full: bool, waited: int) -> dict[str, Any] | None:
        """Verify, and record the state from which the next run starts; None if findings may settle: to be
        called again in ``SETTLE_SECONDS[waited]``, with one more. Raises Refused with the findings."""
        what, unlike = f"contents of {self.spec.table}", table_findings(self.tables, *self._names)
        # Nothing can be compared with a table that is not the one.
        check_findings(log, [] if {finding.name for finding in unlike} <= ONCE else unlike, what)
        forgotten = self._forgotten()
        if self.tables.state(self.spec.table) is TableState.NEW:
            found = self._found_once(forgotten)
            self._told(forgotten)
            check_findings(log, found, what)
            log.info("%s: %s", self.spec.table, NOTHING)
            return {"result": NOTHING}
        earlier = self._contents.earlier(self._newest_state(datetime.now(UTC)), log.warning)
        is_whole = is_full or bool(forgotten)
        before = self._contents.usable(earlier, log.warning) if earlier and not is_whole else None
        found, verified = self._contents.verify(before, earlier, self.key if is_whole else "")
        found = [*(unlike or forgotten), *found]
        if waited < len(SETTLE_SECONDS) and {finding.name for finding in found} & SETTLING:
            log.info("%d findings may settle; looking again in %d s", len(found), SETTLE_SECONDS[waited])
            return None
        judged, is_recorded = self._judged(found, verified, earlier, forgotten)
        notes = self._remove_portions(is_recorded=is_recorded)
        check_findings(log, judged, what)
        if verified is None:
            raise RuntimeError(f"{self.spec.table}: no findings, and no state")
        return self._result(verified, earlier, notes)

    def _newest_state(self, now: datetime) -> Document | None:
        """What a run verified last. Raises Refused for a state that was recorded while a clock was ahead:
        until its time it would stay the newest, whatever later runs record."""
        newest = self._history.newest_keys(VERIFIED_TABLE, 1)
        for key, at in newest:
            if at > now + MAX_AHEAD:
                raise Refused(
                    f"{self._history.uri(key)}: a run verified {self.spec.table} at {at:{_TIME}}, it is "
                    f"{now:{_TIME}}: no later state would count, so nothing was verified. Fix: correct the "
                    "clock, or if it was ahead then: docs/operating.md, Clock is behind the table",
                    ErrorCode.CLOCK_SET_BACK,
                )
        return self._history.get(newest[0][0]) if newest else None

    def _judged(
        self,
        found: Sequence[Finding],
        verified: Verified | None,
        earlier: Verified | None,
        forgotten: Sequence[Finding],
    ) -> tuple[list[Finding], bool]:
        """All findings, and whether the state was recorded: if it is verified by them."""
        all_found, now = [self._with_change(one) for one in found], datetime.now(UTC)
        if verified:
            all_found += [*self._rejected(verified, earlier), *self._waiting(verified, now)]
        passes = {finding.name for finding in all_found} <= ONCE | {FindingName.WITHHELD_WAITING}
        all_found = self._found_once(all_found)
        is_recorded = verified is not None and passes
        if verified is not None and passes:
            document = verified.counted(earlier, now).to_document()
            key = self._history.record_run(VERIFIED_TABLE, document, now)
            self._told(forgotten)
            self.marks.replace(VERIFIED_TABLE, key)
            # Also one that the ledger had forgotten, now that all of it is verified.
            self.tables.accept(*self._names)
        return all_found, is_recorded

    def _remove_portions(self, *, is_recorded: bool) -> list[str]:
        """Delete portions that nothing needs. What hinders that is said, and no finding: they take space."""
        try:
            written = self.ledger.written(PORTIONS)
            found = useless(written, self._contents.used, datetime.now(UTC), is_recorded=is_recorded)
            if not found:
                return []
            self._systems.remove_objects(self.ledger.bucket, (f"{self.ledger.prefix}/{key}" for key in found))
        except (ClientError, ConfigError) as error:
            log.warning("portions of verifications were not deleted: %s", error)
            return [f"portions of verifications, which nothing needs, were not deleted: {error}"]
        log.info("portions deleted: portions=%d", len(found))
        return []

    def _result(
        self, verified: Verified, earlier: Verified | None, more_notes: Sequence[str]
    ) -> dict[str, Any]:
        message = (
            f"{verified.count} offsets, each once; {verified.quarantined.count} of them in quarantine, "
            f"{verified.quarantined_since(earlier)} since the last run that passed; "
            f"{verified.without_record.count} more have no record; {verified.files} files "
            f"added or removed since then, {verified.read} of them read, {verified.manifests} manifests"
        )
        log.info("%s: %s", self.spec.table, message)
        result = {"result": message, "read": verified.read, "files": verified.files}
        # Beside the result, which would be green as if all had been looked at.
        notes = [*self._contents.notes, *more_notes]
        for note in notes:
            log.info("%s", note)
        return {**result, "notes": notes} if notes else result

    def _found_once(self, found: Sequence[Finding]) -> list[Finding]:
        """``found``, and what is found once: recorded by the run, so that it stays red if it is cleared or
        tried again. To be called before the state is recorded from which the next run starts."""
        recorded, key, number = list[list[str]](), self.key, 1
        # A document is never written again: what a cleared run finds beside it is in the next one.
        while document := self.ledger.get(key):
            recorded += document["findings"]
            number += 1
            key = f"{self.key.removesuffix('.json')}-{number}.json"
        once = [[finding.name.value, finding.message] for finding in found if finding.name in ONCE]
        if new := [one for one in once if one not in recorded]:
            recorded += self.ledger.put(key, {"findings": new, "at": datetime.now(UTC).isoformat()})[
                "findings"
            ]
        said = {str(finding) for finding in found}
        before = [Finding(FindingName(name), text) for name, text in recorded]
        return [*found, *(finding for finding in before if str(finding) not in said)]

    def _with_change(self, finding: Finding) -> Finding:
        """Name, in a finding about records in both tables, the change that did not end."""
        if finding.name is not FindingName.OFFSETS_IN_BOTH:
            return finding
        newest = self._lake.changes(self.spec.table).newest
        if not newest:
            return finding
        run = run_of_change(self.ledger, newest[-1])
        of_run = f" of run {run!r}" if run else ", of a run that the ledger does not name"
        message = f"{finding.message}; the newest change is {newest[-1]}{of_run}: clear its apply_change"
        return replace(finding, message=message, whole=finding.whole or finding.message)

    def _forgotten(self) -> list[Finding]:
        """Return findings about a ledger that was restored to an earlier state, by what it must have."""
        lost = [uri for kind in MARKED if (uri := self.marks.lost(kind))]
        message = (
            f"the ledger does not have {', '.join(lost)} any more: it was emptied, or restored to an earlier "
            f"state, and may lack plans, proofs and suspensions. Fix: docs/operating.md, Ledger lost"
        )
        return [Finding(FindingName.LEDGER_LOST, message)] if lost else []

    def _told(self, forgotten: Sequence[Finding]) -> None:
        """What was forgotten is told by this run: the next one begins with what is known now."""
        for kind in MARKED if forgotten else ():
            self.marks.forget(kind)

    def _rejected(self, verified: Verified, earlier: Verified | None) -> list[Finding]:
        """Also while supervision, which tells it at once, is paused or does not see it. Of
        the last run's new records, or with those of runs before it that had too few malformed ones."""
        limit = self.spec.supervision.max_rejected_percent
        sinces: list[tuple[str, Verified | Base | None]] = [("the last run that passed", earlier)]
        if earlier and earlier.base:
            sinces.append((earlier.base.at.isoformat(timespec="seconds"), earlier.base))
        shares = ((since, verified.rejected_since(state)) for since, state in sinces)
        found = next(((since, share) for since, share in shares if share.exceeds(limit)), None)
        if found is None:
            return []
        message = (
            f"{found[1]} were rejected since {found[0]}, max_rejected_percent is {limit}; their reasons are "
            f"in {self.spec.quarantine_table}"
        )
        before = earlier.on_purpose.unplanned if earlier else 0
        if unplanned := verified.on_purpose.unplanned - before:
            message += (
                f"; {unplanned} of them have keys of sources that no load planned so: another producer sends "
                "them, or the ledger lost the plans"
            )
        return [Finding(FindingName.RECORDS_REJECTED, message)]

    def _waiting(self, verified: Verified, now: datetime) -> list[Finding]:
        """Versions that were loaded to replace earlier ones, and have not."""
        found = waiting(verified.on_purpose, lambda: self._contents.sources().reverted, now)
        hours = f"for more than {WAITS.total_seconds() / 3600:g} hours"
        whole = f"{len(found)} versions wait {hours} for action replace: {'; '.join(found)}"
        shown = f"{len(found)} versions wait {hours} for action replace: {summarize(found)}"
        return [Finding(FindingName.WITHHELD_WAITING, shown, whole)] if found else []
