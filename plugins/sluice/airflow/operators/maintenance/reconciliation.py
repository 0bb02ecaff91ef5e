"""Steps of reconciliation: positions of the systems, contents of the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger

from sluice.airflow.failures import final_failures
from sluice.airflow.operators.base import BACKSTOP, StreamOperator
from sluice.changes import plan as change_plans
from sluice.core.error_codes import ErrorCode
from sluice.core.json_record import Document
from sluice.core.messages import summarize
from sluice.core.tables.known_tables import TableState
from sluice.ledger.keys import PROOF, VERIFIED_TABLE, run_key
from sluice.maintenance.reconciliation.findings import (
    Earlier,
    Finding,
    FindingName,
    Observed,
    Proof,
    findings,
    named,
)
from sluice.maintenance.reconciliation.on_purpose import WAITS, waiting
from sluice.maintenance.reconciliation.table_contents import TableContents
from sluice.maintenance.reconciliation.verified_table import Base, Verified

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.ledger.history import History

# Kinds of the history: what the newest runs found, for the next one.
OBSERVED, VERIFIED = "reconciled_offsets", VERIFIED_TABLE
# Kinds of which the ledger must have the newest document that was written.
MARKED = (VERIFIED, PROOF)
FIX = ". Fix: docs/operating.md, Reconciliation findings"
NOTHING = "nothing was loaded yet, and the ledger knows of no earlier table: there is nothing to compare"
# Findings of a table that is not as the ledger knows it.
_TABLE_FINDINGS = {
    TableState.LOST: FindingName.TABLE_LOST,
    TableState.EMPTIED: FindingName.TABLE_LOST,
    TableState.REPLACED: FindingName.TABLE_REPLACED,
    TableState.FORGOTTEN: FindingName.LEDGER_LOST,
}
# Two tables have no common commit: a batch's rejected records follow its publication, and what a change has
# published leaves the quarantine after it. What is still so after these seconds is a finding.
SETTLE_SECONDS = (5, 15, 40)
SETTLING = frozenset({FindingName.OFFSETS_MISSING, FindingName.OFFSETS_IN_BOTH})
# Found once: the state that is there is verified as a whole, and the next run starts from it.
ONCE = frozenset(
    {
        FindingName.TABLE_RESTORED,
        FindingName.MAIN_MOVED,
        FindingName.FOREIGN_COMMIT,
        FindingName.RECORDS_REJECTED,
        FindingName.LEDGER_LOST,
    }
)
EARLIER_SECONDS = 26 * 3600.0


def no_position(table: str) -> str:
    return f"{table}: no snapshot of main that is kept says what it has published"


class ReconciliationOperator(StreamOperator):
    """A step whose findings fail it, without retries: they would be the same."""

    # Of what is lost it has findings.
    checked = None

    @property
    def own_history(self) -> History:
        return self.platform_hook.history(self.stream)

    def table_findings(self, *names: str) -> list[Finding]:
        """Of tables that are lost, replaced or unknown to the ledger."""
        states = {name: self.tables.state(name) for name in names}
        return [
            Finding(_TABLE_FINDINGS[state], self.tables.problem(name) or state.name)
            for name, state in states.items()
            if state in _TABLE_FINDINGS
        ]

    def report(self, found: Sequence[Finding], what: str) -> None:
        problems = [str(finding) for finding in found]
        for finding in found:
            if finding.whole not in finding.message:
                self.log.error("%s: %s", finding.name, finding.whole)
        self.check_no_problems(ErrorCode.RECONCILIATION_FINDING, problems, f"{what}: {named(found)}", FIX)


class ObserveOffsetsOperator(ReconciliationOperator):
    """Compare the offsets of the group, the table and the broker, and the table's with earlier runs'."""

    does = "compares the offsets of topic, table, consumer group, newest verified load and earlier runs"
    fails_if = "one is ahead of another that it follows, or went back"

    def work(self, context: Context) -> dict[str, Any]:
        history, now = self.own_history, datetime.now(UTC)
        lake, kafka, topic = self.platform_hook.lake, self.platform_hook.kafka, self.spec.topic.name
        what = f"offsets of {self.spec.table}"
        # Task verify_table says what the ledger does not know.
        self.report([one for one in self.table_findings(self.spec.table) if one.name not in ONCE], what)
        # Before the topic is asked, which a stream that never ran may not have.
        if self.tables.state(self.spec.table) is TableState.NEW:
            self.log.info("%s: %s", self.spec.table, NOTHING)
            return {"result": NOTHING}
        described = kafka.describe(topic)
        # What is behind first: see sluice.maintenance.reconciliation.findings.
        proved = history.latest(PROOF)
        group = kafka.group_offsets(f"sluice-{self.stream}", topic, described.partitions)
        begins = kafka.begins(topic, described.partitions)
        position, uuid = lake.position(self.spec.table), lake.table_uuid(self.spec.table)
        if position is None:
            self.report([Finding(FindingName.MAIN_MOVED, no_position(self.spec.table))], what)
            raise RuntimeError(f"{self.spec.table}: no position, and no finding")
        found = findings(
            Observed(
                group,
                begins,
                position.ends,
                position.topic_id,
                described.id,
                kafka.ends(topic),
                self._earlier(history, now, position.topic_id, uuid),
                history.suspended() is not None,
                self._proof(proved, uuid),
            )
        )
        ends = {str(partition): end for partition, end in sorted(position.ends.items())}
        # Findings too: what an earlier run saw is compared for a day, or until the table ends there again.
        about = {"table": self.spec.table, "table_uuid": uuid}
        history.record_run(OBSERVED, {**about, "ends": ends, "topic_id": position.topic_id}, now)
        self.report(found, what)
        return {"result": f"offsets agree: the table ends at {ends}"}

    @staticmethod
    def _proof(document: Document | None, uuid: str) -> Proof | None:
        """None also if it is of an earlier table: the stream was given a new one."""
        if document is None or document.get("table_uuid", uuid) != uuid:
            return None
        return Proof(document["run_id"], {int(p): end for p, end in document["ends"].items()})

    @staticmethod
    def _earlier(history: History, now: datetime, topic_id: str | None, uuid: str) -> tuple[Earlier, ...]:
        """The newest run's ends, and the newest ones since which the group's are due, of the same topic and
        table."""
        found: list[Document] = history.since(OBSERVED, now - timedelta(seconds=EARLIER_SECONDS))
        return tuple(
            Earlier(
                (now - datetime.fromisoformat(document["at"])).total_seconds(),
                {int(partition): end for partition, end in document["ends"].items()},
            )
            for document in found[::-1]
            if (document["topic_id"], document.get("table_uuid", uuid)) == (topic_id, uuid)
        )


class VerifyTableOperator(ReconciliationOperator):
    """Verify that each published offset is in the table or the quarantine once, from what the last run that
    passed verified and the files since."""

    does = "verifies every published offset, and the commits, since the last run that passed"
    fails_if = (
        "an offset is missing, repeated or unexpected, too many new records were rejected, metadata is "
        "damaged, another program committed, or `main` was moved by hand"
    )

    waits = tuple(timedelta(seconds=seconds) + BACKSTOP for seconds in SETTLE_SECONDS)

    def found_once(self, context: Context, found: Sequence[Finding]) -> list[Finding]:
        """``found``, and what is found once: recorded by the run, so that it stays red if it is cleared or
        tried again. To be called before the state is recorded from which the next run starts."""
        key = run_key(context["run_id"], f"findings-{self.task_id}")
        recorded = self.ledger.get(key)
        once = [[finding.name.value, finding.message] for finding in found if finding.name in ONCE]
        if once and recorded is None:
            recorded = self.ledger.put(key, {"findings": once, "at": datetime.now(UTC).isoformat()})
        said = {str(finding) for finding in found}
        before = [Finding(FindingName(n), text) for n, text in (recorded or {}).get("findings", [])]
        return [*found, *(finding for finding in before if str(finding) not in said)]

    def _with_change(self, finding: Finding) -> Finding:
        """Of records in both tables the finding names the change that did not end."""
        if finding.name is not FindingName.OFFSETS_IN_BOTH:
            return finding
        newest = self.platform_hook.lake.changes(self.spec.table).newest
        if not newest:
            return finding
        run = change_plans.run_of(self.ledger, newest[-1])
        of_run = f" of run {run!r}" if run else ", of a run that the ledger does not name"
        message = f"{finding.message}; the newest change is {newest[-1]}{of_run}: clear its apply_change"
        return replace(finding, message=message, whole=finding.whole or finding.message)

    def _forgotten(self) -> list[Finding]:
        """Of a ledger that was restored to an earlier state, by what it must have."""
        lost = [uri for kind in MARKED if (uri := self.marks_of(self.ledger).lost(kind))]
        message = (
            f"the ledger does not have {', '.join(lost)} any more: it was emptied, or restored to an earlier "
            f"state, and may lack plans, proofs and suspensions. Fix: docs/operating.md, Ledger lost"
        )
        return [Finding(FindingName.LEDGER_LOST, message)] if lost else []

    def _told(self, forgotten: Sequence[Finding]) -> None:
        """What was forgotten is told by this run: the next one begins with what is known now."""
        for kind in MARKED if forgotten else ():
            self.marks_of(self.ledger).forget(kind)

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
        lake, withheld = self.platform_hook.lake, verified.on_purpose.withheld
        found = waiting(self.ledger, lake, self.spec.table, withheld, now)
        hours = f"for more than {WAITS.total_seconds() / 3600:g} hours"
        whole = f"{len(found)} versions wait {hours} for action replace: {'; '.join(found)}"
        shown = f"{len(found)} versions wait {hours} for action replace: {summarize(found)}"
        return [Finding(FindingName.WITHHELD_WAITING, shown, whole)] if found else []

    def work(self, context: Context) -> dict[str, Any]:
        return self._verify(context, 0)

    def resume(self, context: Context, event: Any, waited: int) -> dict[str, Any]:
        with final_failures():
            return self._verify(context, waited)

    def _verify(self, context: Context, waited: int) -> dict[str, Any]:
        """``waited``: how often it did."""
        lake, history, what = self.platform_hook.lake, self.own_history, f"contents of {self.spec.table}"
        names = (self.spec.table, self.spec.quarantine_table)
        unlike = self.table_findings(*names)
        # Nothing can be compared with a table that is not the one.
        self.report([] if {finding.name for finding in unlike} <= ONCE else unlike, what)
        forgotten = self._forgotten()
        if self.tables.state(self.spec.table) is TableState.NEW:
            found = self.found_once(context, forgotten)
            self._told(forgotten)
            self.report(found, what)
            self.log.info("%s: %s", self.spec.table, NOTHING)
            return {"result": NOTHING}
        contents = TableContents(lake, *names, self.ledger, self.platform_hook.batch_log)
        earlier = contents.earlier(history.latest(VERIFIED), self.log.warning)
        is_full = context["params"].get("full") or forgotten
        before = contents.usable(earlier, self.log.warning) if earlier and not is_full else None
        found, verified = contents.verify(before, earlier)
        found = [*(unlike or forgotten), *found]
        if waited < len(SETTLE_SECONDS) and {finding.name for finding in found} & SETTLING:
            seconds = SETTLE_SECONDS[waited]
            self.log.info("%d findings may settle; looking again in %d s", len(found), seconds)
            pause = timedelta(seconds=seconds)
            self.defer(
                trigger=TimeDeltaTrigger(pause),
                method_name="resume",
                kwargs={"waited": waited + 1},
                timeout=pause + BACKSTOP,
            )
        found = [self._with_change(one) for one in found]
        now = datetime.now(UTC)
        found += self._rejected(verified, earlier) if verified else []
        found += self._waiting(verified, now) if verified else []
        is_verified = {finding.name for finding in found} <= ONCE | {FindingName.WITHHELD_WAITING}
        found = self.found_once(context, found)
        if verified is not None and is_verified:
            key = history.record_run(VERIFIED, verified.counted(earlier, now).to_document(), now)
            self._told(forgotten)
            self.marks_of(self.ledger).replace(VERIFIED, key)
            # Also one that the ledger had forgotten, now that all of it is verified.
            self.tables.accept(*names)
        self.report(found, what)
        if verified is None:
            raise RuntimeError(f"{self.spec.table}: no findings, and no state")
        message = (
            f"{verified.count} offsets, each once; {verified.quarantined.count} of them in quarantine, "
            f"{verified.quarantined_since(earlier)} since the last run that passed; {verified.files} files "
            f"added or removed since then, {verified.read} of them read, {verified.manifests} manifests"
        )
        self.log.info("%s: %s", self.spec.table, message)
        return {"result": message, "read": verified.read, "files": verified.files}
