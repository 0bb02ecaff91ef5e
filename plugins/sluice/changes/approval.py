"""When a person has to be asked about a change, and what counts as the answer: only what the ledger has.

Who may edit a run's values in Airflow can write any answer there, so the task that asks records each answer
here, with the person who gave it; of several the latest counts.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from sluice.core.changes.plan import Action, ChangePlan
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.json_record import Document
from sluice.ledger import run_documents
from sluice.ledger.keys import run_key

if TYPE_CHECKING:
    from sluice.core.changes.published import Changes
    from sluice.ledger.documents import Ledger

log = logging.getLogger(__name__)

# The task that asks.
APPROVE = "approve_change"
# Name of the ledger's document, and the answer in it that approves.
ANSWER, APPROVED = "change-approval", "Approve"


def changed_rows(document: Document) -> int:
    counted = document["counted"]
    return max(counted["rows_out"], counted["records_in"])


def needs_approval(document: Document) -> bool:
    """Whether rows go that do not come back, or more of them than the param ``ask_above``."""
    is_final = document["action"] in (Action.REVERT, Action.REPLACE, Action.REMOVE)
    return is_final or changed_rows(document) > _ask_above(document)


def _ask_above(document: Document) -> int:
    return int(document["params"].get("ask_above", 0))


def why_undecidable(document: Document, published: Changes) -> str | None:
    """Why no answer of a person decides about a change; None if one does: a rejection, or none in time, would
    say that nothing was changed."""
    plan = ChangePlan.from_document(document)
    if plan.is_empty:
        return f"change {plan.id} has nothing to fill"
    match published.has(plan.id, plan.changes):
        case True:
            return f"change {plan.id} is published already"
        case None:
            later = published.count - plan.changes
            return f"{later} changes came since it was planned: it is not made any more"
        case False:
            return None


def why_unasked(document: Document, published: Changes) -> str | None:
    """Why no person is asked about a change; None if one is."""
    if reason := why_undecidable(document, published):
        return reason
    if outdated := ChangePlan.from_document(document).outdated_by(published):
        return f"{outdated}: it is not made any more"
    if not needs_approval(document):
        return f"{changed_rows(document)} rows, asked above {_ask_above(document)}"
    return None


def record_answer(
    ledger: Ledger, run_id: str, document: Document, options: Sequence[str], who: str | None, at: datetime
) -> None:
    """Keep the chosen ``options`` of ``who``."""
    answer = {
        "change_id": document["change_id"],
        "answer": ", ".join(options),
        "who": who,
        "at": at.isoformat(),
    }
    run_documents.add(ledger, run_id, ANSWER, answer)


def check_approved(ledger: Ledger, run_id: str, document: Document, published: Changes) -> None:
    """Raise Refused unless a person approved a change that needs it, also if the task that asks was marked as
    success."""
    change = document["change_id"]
    # One that is not named any more is published, or is not made.
    if not needs_approval(document) or published.has(change, document["changes"]) is not False:
        return
    found = run_documents.newest(ledger, run_id, ANSWER)
    given = found[1] if found else {}
    answer, is_of_this = given.get("answer"), given.get("change_id") == change
    if answer != APPROVED or not given.get("who") or not is_of_this:
        said = f"its answer is {answer}" if answer and is_of_this else "it has no answer"
        by = "" if given.get("who") or not answer else ", of no person"
        raise Refused(
            f"change {change} ({document['action']} of {changed_rows(document)} rows) is not approved: a "
            f"person has to, in task {APPROVE}, and {said}{by}; nothing was changed. Fix: clear {APPROVE}, "
            "and answer it",
            ErrorCode.CHANGE_REFUSED,
        )


def is_to_apply(ledger: Ledger, run_id: str, document: Document, published: Changes) -> bool:
    """Whether the job has to make the change, or to end what it began. Raises Refused if it is not
    approved, or not made any more."""
    plan = ChangePlan.from_document(document)
    if plan.is_empty:
        at = document.get("at") or "its plan"
        log.info("change %s had nothing to fill at %s; trigger a new run to look again", plan.id, at)
        return False
    # One of the newest goes to the job, which completes its part of the quarantine.
    is_older = plan.id not in published.newest and published.has(plan.id, plan.changes)
    if is_older and ledger.get(run_key(run_id, "change-proof")) is not None:
        log.info("change %s is published and verified: nothing is done again", plan.id)
        return False
    if published.has(plan.id, plan.changes) is False and (reason := plan.outdated_by(published)):
        # As the job does; here before it is said that a person has to approve it.
        raise Refused(
            f"change {plan.id}: {reason}; nothing was changed. Fix: trigger a new run",
            ErrorCode.CHANGE_REFUSED,
        )
    check_approved(ledger, run_id, document, published)
    return True
