"""Tell a person of a change, once, and record it in the ledger's history after it was delivered."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowRuntimeError

from sluice.clients.errors import ClientError
from sluice.hooks.delivery import NotDelivered, deliver
from sluice.hooks.platform import PlatformHook
from sluice.model import pages
from sluice.model.error_codes import ErrorCode, code_in, code_of, with_code
from sluice.model.notifications import Notification, after, due, notification
from sluice.model.spec import notifications
from sluice.model.spec import stream as streams
from sluice.model.spec.config import ConfigError
from sluice.model.spec.ledger import NOTIFIED, NOTIFIED_RUN, history_name
from sluice.model.spec.notifications import Event, Rule

if TYPE_CHECKING:
    from sluice.clients.ledger import History

log = logging.getLogger(__name__)

# DAGs whose next run finds the same again: told once per outage, as supervision is.
SCHEDULED = ("maintenance", "reconciliation")
# Of a run whose start is unknown.
LONGEST_RUN = timedelta(days=2)
# Of what is well again.
SUCCEEDS, NONE = "succeeds again", "no action needed"
WHO_DECIDES = "every Airflow user who may update required actions (HITL details) of DAG {dag}"


def rules_for(stream: str) -> list[Rule]:
    """The rules over a stream. Raises ConfigError for an invalid notifications.toml."""
    return notifications.load(streams.names()).covering(stream)


def compose(
    event: Event,
    stream: str,
    about: str,
    message: object,
    run: tuple[str, str],
    *,
    task: str = "",
    **more: str,
) -> Notification:
    """A notification with its addresses; ``run``: dag and run id; ``more``: ``link``, ``remedy``."""
    base = conf.get("api", "base_url", fallback="http://localhost:8080")
    page = f"{base.rstrip('/')}/{pages.stream_page(stream)}"
    more = {"link": pages.run_page(base, *run, task), **more}
    return notification(event, stream, about, message, page=page, run=run, **more)


def request(stream: str, about: str, message: object, run: tuple[str, str], task: str) -> Notification:
    """Of a decision that ``task`` of ``run`` asks for."""
    base = conf.get("api", "base_url", fallback="http://localhost:8080")
    link = pages.answer_page(base, *run, task)
    remedy = f"answer at {link} (Required Actions); who may: {WHO_DECIDES.format(dag=run[0])}"
    return compose(Event.DECISION, stream, about, message, run, link=link, remedy=remedy)


def is_told(history: History, stream: str) -> bool:
    """Whether a person was told of an outage and not of its end. One request, none without rules."""
    rules = rules_for(stream)
    return bool(rules) and bool(due(rules, _told(history), ""))


def tell(history: History, note: Notification, condition: str, context: Mapping[str, Any]) -> None:
    """Tell of ``condition`` unless it was told since the last recovery; "" is the recovery.

    A rule whose notifier fails is due again at the next call. Raises NotDelivered, ConfigError, ClientError.
    """
    rules = rules_for(note.stream)
    told = _told(history) if rules else {}
    waiting = due(rules, told, condition)
    failures = deliver(_covering(waiting, note), note, context)
    done = [rule for rule in waiting if rule.id not in failures]
    if done:
        delivered = [rule.id for rule in _covering(done, note)]
        document = _document(note, delivered) | {"told": after(rules, told, condition, done)}
        history.record_run(NOTIFIED, document, datetime.now(UTC))
    _check_delivered(failures)


def tell_of_run(history: History, note: Notification, since: datetime, context: Mapping[str, Any]) -> None:
    """Tell of a run unless it was told since its start; each event of it once. Raises as :func:`tell`."""
    rules = _covering(rules_for(note.stream), note)
    found = history.since(NOTIFIED_RUN, since) if rules else []
    told = {
        rule_id
        for event in found
        if (event["dag"], event["run"], event["event"]) == (*note.run, note.event.value)
        for rule_id in event["delivered"]
    }
    waiting = [rule for rule in rules if rule.id not in told]
    failures = deliver(waiting, note, context)
    delivered = [rule.id for rule in waiting if rule.id not in failures]
    if delivered:
        history.record_run(NOTIFIED_RUN, _document(note, delivered), datetime.now(UTC))
    _check_delivered(failures)


def task_failed(context: Mapping[str, Any]) -> None:
    """``on_failure_callback`` of every task over a stream: it failed for good.

    Airflow calls it in the task's own process, with the exception; if that was killed, the scheduler finds it
    and the DAG processor calls it, without one. Not a listener, which no process calls for a killed worker,
    and not a last task of the DAG, which would take a worker for each run that is well. A failure to deliver
    is logged: the task is red already, and the next check, or the run's own callback, tries again.
    """
    task, error = context["task"], context.get("exception")
    message = _reason(error, task.task_id)
    if code_in(message) is ErrorCode.NOT_DELIVERED:
        return
    dag_id, run_id = task.dag_id, context["run_id"]
    stream, kind = task.stream, dag_id.removeprefix(f"{task.stream}_")
    if kind == "stream":
        about = getattr(task, "component", None) or task.task_id
        note = compose(Event.ALERT, stream, about, message, (dag_id, run_id), task=task.task_id)
        condition = code_in(message) or ErrorCode.PROCESS_FAILED
        _attempt(lambda: _tell_of_supervision(history_name(stream, about), note, condition.value, context))
        return
    note = compose(
        Event.FAILURE, stream, f"{kind} {task.task_id}", message, (dag_id, run_id), task=task.task_id
    )
    if kind in SCHEDULED:
        _attempt(lambda: tell(_history(f"{stream}.{kind}"), note, f"{task.task_id}: {message}", context))
    else:
        _attempt(lambda: tell_of_run(_history(stream), note, start_of(context), context))


def task_succeeded(context: Mapping[str, Any]) -> None:
    """``on_success_callback`` of a task of supervision that is no component."""
    task = context["task"]
    run = (task.dag_id, context["run_id"])
    note = compose(Event.RECOVERY, task.stream, task.task_id, SUCCEEDS, run, task=task.task_id, remedy=NONE)
    _attempt(lambda: tell(_history(history_name(task.stream, task.task_id)), note, "", context))


def run_failed(stream: str, context: Mapping[str, Any]) -> None:
    """``on_failure_callback`` of a DAG, in the DAG processor: of a run that failed without a failed task (it
    timed out), or whose failed task told nobody."""
    dag, reason = context["dag"], context.get("reason") or "unknown"
    kind, run = dag.dag_id.removeprefix(f"{stream}_"), (dag.dag_id, context["run_id"])
    if kind in SCHEDULED and reason == "task_failure":
        return
    if reason == "timed_out":
        reason = f"timed out after {dag.dagrun_timeout}; its unfinished tasks were skipped"
    message = f"{ErrorCode.PROCESS_FAILED} the run failed: {reason}"
    remedy = "see the run's tasks and their logs; clear the first one that failed or was skipped"
    note = compose(Event.FAILURE, stream, kind, message, run, remedy=remedy)
    if kind in SCHEDULED:
        _attempt(lambda: tell(_history(f"{stream}.{kind}"), note, f"run: {reason}", context))
    else:
        _attempt(lambda: tell_of_run(_history(stream), note, start_of(context), context))


def run_succeeded(stream: str, context: Mapping[str, Any]) -> None:
    """``on_success_callback`` of a DAG of SCHEDULED, in the DAG processor."""
    dag_id = context["dag"].dag_id
    kind = dag_id.removeprefix(f"{stream}_")
    run = (dag_id, context["run_id"])
    note = compose(Event.RECOVERY, stream, kind, SUCCEEDS, run, remedy=NONE)
    _attempt(lambda: tell(_history(f"{stream}.{kind}"), note, "", context))


def _tell_of_supervision(name: str, note: Notification, condition: str, context: Mapping[str, Any]) -> None:
    try:
        tell(_history(name), note, condition, context)
    except ClientError as error:
        # Without the ledger, whose failure this often is, Airflow says whether it failed before.
        log.warning("history does not answer: %s", error)
        if not _failed_before(context):
            _check_delivered(deliver(_covering(rules_for(note.stream), note), note, context))


def _failed_before(context: Mapping[str, Any]) -> bool:
    """Whether the task of the run before failed too. False if Airflow does not know."""
    try:
        before = context["ti"].get_previous_ti()
    except AirflowRuntimeError as error:
        log.warning("previous task instance unknown: %s", error)
        return False
    return before is not None and before.run_id != context["run_id"] and before.state == "failed"


def _attempt(telling: Callable[[], None]) -> None:
    """Log why it could not be told: what a callback raises, Airflow would log with a traceback."""
    try:
        telling()
    except (NotDelivered, ConfigError, ClientError) as error:
        log.error("%s", with_code(code_of(error), error))


def _check_delivered(failures: Mapping[str, str]) -> None:
    if failures:
        reasons = "; ".join(f"{rule}: {reason}" for rule, reason in failures.items())
        raise NotDelivered(
            f"{len(failures)} notifier(s) failed: {reasons}. Fix: repair the notifier's system or its "
            f"Airflow connection, or correct {notifications.FILE}"
        )


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


def start_of(context: Mapping[str, Any]) -> datetime:
    """Of the run, also of one that was cleared: it may be told of again."""
    start: datetime | None = getattr(context.get("dag_run"), "start_date", None)
    return start or datetime.now(UTC) - LONGEST_RUN


def _document(note: Notification, delivered: Sequence[str]) -> dict[str, Any]:
    return {
        "event": note.event.value,
        "message": note.message,
        "dag": note.run[0],
        "run": note.run[1],
        "delivered": list(delivered),
    }


def _told(history: History) -> dict[str, list[str]]:
    newest = history.latest(NOTIFIED)
    return newest["told"] if newest else {}


def _covering(rules: Sequence[Rule], note: Notification) -> list[Rule]:
    return [rule for rule in rules if rule.covers(note.event, note.stream)]


def _history(name: str) -> History:
    return PlatformHook().history(name)
