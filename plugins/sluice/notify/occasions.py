"""Which ends of tasks and runs a person is told of, and whether once per outage or once per run."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta

from sluice.config.notifications import INSTALLATION, Event
from sluice.core.error_codes import ErrorCode, code_in, code_of, with_code
from sluice.core.messages import counted, summarize
from sluice.ledger.keys import history_name
from sluice.notify.conditions import scheduled_condition

MAINTENANCE = "maintenance"
# DAGs whose next run finds the same again: told once per outage, as supervision is.
CONNECTIONS = "connections"
SCHEDULED = (MAINTENANCE, "reconciliation", CONNECTIONS)
# The DAG that supervises a stream, and the one that is there while something is wrong that belongs to none.
STREAM, CONFIGURATION = "stream", "configuration"
# A certificate that ends is told in other numbers each day.
_NUMBERS = re.compile(r"\d+ (?:d|h|min|s)\b|\d+")
# Texts of a recovery.
SUCCEEDS, NONE = "succeeds again", "no action needed"


@dataclass(frozen=True)
class Occasion:
    """An end of a task or run that a person is told of."""

    event: Event
    """Rules of notifications.toml choose by it."""
    stream: str
    """Its name, or INSTALLATION for what concerns them all."""
    about: str
    """The component, or the DAG's kind with its task, as `load produce`."""
    message: str
    """Has an error code, unless it is a recovery; a person gets its first line."""
    outage: str = ""
    """History of what was told of it, as `nyc_taxi.maintenance`; empty for a run, told once."""
    condition: str = ""
    """What is told once per outage, as its error code; "": the outage is over."""
    findings: tuple[str, ...] = ()
    """Each is told once per outage, instead of `condition`, with which their conditions begin."""
    head: str = ""
    """Number of the findings, without their texts."""
    is_urgent: bool = False
    """Told without the history, too."""
    is_repeated: bool = False
    """A task of the run may have told."""
    is_component: bool = False
    """A person may restart, stop or start what it is about."""
    remedy: str = ""
    """Empty: that of the message's error code."""


def kind_of(dag_id: str, stream: str) -> str:
    """A DAG's kind: its name without that of its stream."""
    return dag_id.removeprefix(f"{stream}_")


def failed_task(
    stream: str, dag_id: str, task_id: str, error: object, today: date, component: str | None = None
) -> Occasion | None:
    """A task over ``stream`` failed for good; without ``error`` its process was killed. ``component``: that
    it supervises. None: not told."""
    message = _reason(error, task_id)
    code = code_in(message) or ErrorCode.PROCESS_FAILED
    if code is ErrorCode.NOT_DELIVERED:
        return None
    kind = kind_of(dag_id, stream)
    if kind == STREAM:
        about = component or task_id
        # The alert's name is the maintenance's, whose success ends it, and not the consumer's, which is well.
        is_overdue = code is ErrorCode.MAINTENANCE_OVERDUE
        return Occasion(
            Event.ALERT,
            stream,
            about,
            message,
            outage=f"{stream}.{MAINTENANCE}" if is_overdue else history_name(stream, about),
            condition=code.value,
            is_urgent=True,
            is_component=component is not None,
        )
    if kind == CONFIGURATION:
        # The DAG is gone when it is corrected, so no run tells of that: told again the next day.
        condition = f"{code.value} {_digest(message)} {today.isoformat()}"
        outage = f"{stream}.{kind}"
        return Occasion(Event.ALERT, stream, kind, message, outage, condition, is_urgent=True)
    about = f"{kind} {task_id}"
    if kind in SCHEDULED:
        condition, outage = scheduled_condition(task_id, message), f"{stream}.{kind}"
        occasion = Occasion(Event.FAILURE, stream, about, message, outage, condition)
        findings, head = getattr(error, "findings", ()), getattr(error, "head", "")
        return replace(occasion, findings=tuple(findings), head=head)
    return Occasion(Event.FAILURE, stream, about, message)


def conditions_of(occasion: Occasion) -> dict[str, str]:
    """Condition -> finding. The same one in other numbers has the same; those of its address are its own."""
    found: dict[str, str] = {}
    for finding in occasion.findings:
        where, _, what = finding.partition(": ")
        text = " ".join(_NUMBERS.sub("", what).split())
        condition = f"{occasion.condition} {_digest(f'{where}: {text}')}"
        while condition in found:
            condition += "+"
        found[condition] = finding
    return found


def about_findings(occasion: Occasion, findings: Sequence[str]) -> Occasion:
    """``occasion`` with a message that begins with some of its findings."""
    if not findings:
        return occasion
    code = code_in(occasion.message) or ErrorCode.PROCESS_FAILED
    message = with_code(code, f"{occasion.head}: {summarize(findings)}")
    return replace(occasion, findings=tuple(findings), message=message)


def failed_run(stream: str, dag_id: str, reason: str, timeout: timedelta | None) -> Occasion | None:
    """A run failed for Airflow's ``reason``. None: its failed task has told."""
    kind = kind_of(dag_id, stream)
    has_failed_task = reason == "task_failure"
    if kind in SCHEDULED and has_failed_task:
        return None
    text = reason
    if reason == "timed_out":
        text = f"timed out after {timeout}; its unfinished tasks were skipped"
    is_scheduled = kind in SCHEDULED
    return Occasion(
        Event.FAILURE,
        stream,
        kind,
        f"{ErrorCode.PROCESS_FAILED} the run failed: {text}",
        outage=f"{stream}.{kind}" if is_scheduled else "",
        condition=f"run: {reason}" if is_scheduled else "",
        is_repeated=has_failed_task,
        remedy="see the run's tasks and their logs; clear the first one that failed or was skipped",
    )


def not_looked_at(lines: Sequence[str]) -> Occasion:
    """``lines``: of each role that a check of connections did not look as. Each is told once, whether the
    check fails or not, and again if it was looked at meanwhile; none ends it."""
    about, outage = f"{CONNECTIONS} roles", f"{INSTALLATION}.{CONNECTIONS}_roles"
    if not lines:
        return recovered(INSTALLATION, about, outage, "all roles are looked at again")
    head = f"{counted(len(lines), 'end')} not looked at"
    message = with_code(ErrorCode.CONNECTION_FINDING, f"{head}: {summarize(lines)}")
    occasion = Occasion(Event.FAILURE, INSTALLATION, about, message, outage, "roles:")
    return replace(occasion, findings=tuple(lines), head=head)


def recovered(stream: str, about: str, outage: str, message: str = SUCCEEDS) -> Occasion:
    """``about`` works again, which ends ``outage``."""
    return Occasion(Event.RECOVERY, stream, about, message, outage, remedy=NONE)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _reason(error: object, task_id: str) -> str:
    if error is None:
        return (
            f"{ErrorCode.PROCESS_FAILED} task {task_id} ended without a report: its worker was killed or "
            "lost. Fix: see the scheduler's log, then clear the task"
        )
    text = str(error)
    if code := code_in(text):
        return with_code(code, text)
    if isinstance(error, BaseException):
        return with_code(code_of(error), f"{type(error).__name__}: {text}")
    return with_code(ErrorCode.PROCESS_FAILED, text)
