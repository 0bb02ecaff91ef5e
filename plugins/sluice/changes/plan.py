"""The plan of a change, from what is asked for: checked, counted and pinned before anything is done."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sluice.changes import loads, records
from sluice.changes.requested import required
from sluice.changes.stream import PlannedStream, number_of_rows, refused
from sluice.core.changes.plan import Action, ChangePlan, change_id
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused, Unreachable
from sluice.core.json_record import Document
from sluice.core.offsets.ranges import SHOWN
from sluice.ledger import run_documents
from sluice.ledger.keys import change_key, now, run_key
from sluice.loads.verification.checks import LoadFiles, check_offsets

if TYPE_CHECKING:
    from sluice.clients.lake.catalog import Lake
    from sluice.config.stream import StreamSpec
    from sluice.ledger.documents import Ledger
    from sluice.systems import Systems

log = logging.getLogger(__name__)

# The task that a run without a plan needs first.
PLAN = "plan_change"


def plan_change(
    systems: Systems,
    spec: StreamSpec,
    ledger: Ledger,
    run_id: str,
    params: Mapping[str, Any],
    settle: Callable[[], bool],
    triggered: datetime | None = None,
) -> Document:
    """The run's plan with what it counts, pinned by its first attempt. Changes nothing.

    ``settle`` waits until the quarantine has what the stream rejected, and says whether it does.
    ``triggered``: by a person, and when. Raises Refused or Missing with the reason and the fix, Unreachable
    without such a quarantine; also Refused if the change was published, and undone since, or its plan lost.
    """
    is_pinned = ledger.get(run_key(run_id, "change")) is not None

    def create() -> Document:
        stream = PlannedStream(systems, spec, ledger, run_id)
        # What is withheld among the published records is there only then.
        if not settle():
            raise Unreachable(
                f"{spec.quarantine_table} does not hold yet what {spec.table} rejected, so it "
                f"is not known what is withheld. Fix: start the consumer ({spec.name}_stream, action "
                "start), then clear this task",
                ErrorCode.SYSTEM_UNREACHABLE,
            )
        if stream.changes.names(change_id(run_id)):
            # A plan of what is left to do is another one than that which was published, and verified.
            raise Refused(
                f"run id {run_id!r} has a published change, {change_id(run_id)} of {spec.table}, and the "
                "ledger has lost its plan; nothing was changed. Fix: trigger a new run; the ledger: "
                "docs/operating.md, Ledger lost",
                ErrorCode.RUN_ID_REUSED,
            )
        plan = plan_action(stream, params)
        counted = _count(systems.lake, spec, plan)
        return {**plan.to_document(), "counted": counted, "metadata": _metadata(systems.lake, spec)}

    document = pin(ledger, run_id, params, create, triggered)
    if is_pinned:
        _check_not_undone(systems, spec, run_id, ChangePlan.from_document(document))
    return document


def plan_action(stream: PlannedStream, params: Mapping[str, Any]) -> ChangePlan:
    """What the action of the params would change. Raises Refused or Missing with the reason and the fix."""
    match Action(params["action"]):
        case Action.REPLAY:
            return records.replay(stream, params)
        case Action.RETRY:
            return records.retry(stream, params)
        case Action.REVERT:
            return loads.revert(stream, required(params, "load"))
        case Action.REDO if params.get("ranges"):
            return records.redo_records(stream, params)
        case Action.REDO:
            return loads.redo(stream, required(params, "load"), is_partial=bool(params.get("partial")))
        case Action.FILL:
            return records.fill(stream, params)
        case Action.REMOVE:
            return records.remove(stream, required(params, "ranges"))
        case Action.REPLACE:
            return loads.replace(stream, required(params, "object"))
    raise refused(f"action {params['action']!r} is not known", "choose another")


def pin(
    ledger: Ledger,
    run_id: str,
    params: Mapping[str, Any],
    create: Callable[[], Document],
    triggered: datetime | None = None,
) -> Document:
    """The run's plan in the ledger, or a new one. Raises Refused if it was made for other params, or long
    before the run was ``triggered``."""
    asked = {name: value for name, value in sorted(params.items()) if value not in (None, "", [])}
    plan = run_documents.pin(
        ledger, run_id, "change", lambda: {**create(), "params": asked, "at": now()}, triggered
    )
    # Each attempt: one may have ended before it.
    ledger.pin(change_key(change_id(run_id)), lambda: {"run_id": run_id})
    if plan["params"] != asked:
        raise Refused(
            f"run id {run_id!r} has a plan for another change, {json.dumps(plan['params'])}; asked for is "
            f"{json.dumps(asked)}. A run id keeps its plan, also when its run is deleted; nothing was "
            "changed. Fix: trigger a run with another run id",
            ErrorCode.RUN_ID_REUSED,
        )
    return plan


def pinned(ledger: Ledger, run_id: str) -> Document:
    """The run's plan. Raises Missing without one."""
    return ledger.require(run_key(run_id, "change"), PLAN)


def _check_not_undone(systems: Systems, spec: StreamSpec, run_id: str, plan: ChangePlan) -> None:
    """Raise Refused if the change of a run that is cleared was published, and undone since: the run would
    be green without it."""
    from sluice.clients.lake.changes import removed_by

    changes = systems.lake.changes(spec.table)
    if not changes.has(plan.id, plan.changes):
        return
    removed = removed_by(systems.s3, changes)
    # Not for some of its records: the rest of them can still be verified.
    is_undone = bool(plan.rows_in) and not plan.rows_in.minus(removed.removed)
    if (plan.reverts and plan.id not in removed.reverts) or is_undone:
        raise Refused(
            f"change {plan.id} ({plan.action}) of {spec.table} was published, and a later change "
            f"has undone it: run id {run_id!r} keeps its plan and makes it once; nothing was changed. "
            "Fix: trigger a new run",
            ErrorCode.RUN_ID_REUSED,
        )
    log.info("change %s is published already: nothing is done again", plan.id)


def _metadata(lake: Lake, spec: StreamSpec) -> dict[str, str]:
    """The metadata files of table and quarantine before the change, to go back to."""
    return {name: lake.table(name).metadata_location for name in (spec.table, spec.quarantine_table)}


def _count(lake: Lake, spec: StreamSpec, plan: ChangePlan) -> Document:
    """Rows that go, and of the records that come how many are published, in quarantine and missing."""
    going = 0
    if plan.action is Action.FILL:
        return _with_further_fields(lake, spec, plan)
    if plan.sources_out:
        going = number_of_rows(lake.table(spec.table), plan.sources_out)
    if plan.rows_out:
        found = check_offsets(LoadFiles.at(lake, spec, plan.rows_out))
        going += found.verification.found - found.quarantined.count
        # REMOVE takes the records in quarantine out, too.
        going += plan.quarantined_out.intersect(found.quarantined).count
    counted = {"rows_out": going, "records_in": plan.rows_in.count}
    if plan.rows_in:
        check = check_offsets(LoadFiles.at(lake, spec, plan.rows_in))
        counted |= {"missing": check.verification.gaps.count, "quarantined": check.quarantined.count}
    return counted


def _with_further_fields(lake: Lake, spec: StreamSpec, plan: ChangePlan) -> Document:
    from sluice.clients.lake.reading.further_fields import rows_with

    if plan.is_empty:
        log.info("nothing to fill: no row of %s has further fields there", spec.table)
        return {"rows_out": 0, "records_in": 0}
    column = spec.records.unknown_column if spec.records else ""
    rows = rows_with(lake.table(spec.table), column, plan.rows_out)
    return {"rows_out": rows, "records_in": rows}


def preview(document: Document, address: str, limit: int = SHOWN) -> list[list[Any]]:
    """List names and values of the change's effects. ``limit`` characters of offsets; ``address`` has all."""
    plan, counted = ChangePlan.from_document(document), document["counted"]
    if plan.action is Action.FILL:
        return [
            ["action", plan.action.value],
            ["rows with further fields", f"{counted['rows_out']:,}"],
            ["at offsets", plan.rows_out.shown(limit, address) if plan.rows_out else "-"],
            ["plan", address],
        ]
    return [
        ["action", plan.action.value],
        ["rows that go", f"{counted['rows_out']:,}"],
        ["of sources", len(plan.sources_out)],
        ["at offsets", plan.rows_out.shown(limit, address) if plan.rows_out else "-"],
        ["records that come", f"{counted['records_in']:,}"],
        ["at offsets", plan.rows_in.shown(limit, address) if plan.rows_in else "-"],
        ["of them in quarantine now", counted.get("quarantined", 0)],
        ["of them in neither now", counted.get("missing", 0)],
        ["plan", address],
    ]
