"""Tell a person of a change, once, and record it in the ledger's history after it was delivered."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowRuntimeError

from sluice.airflow.delivery import NoAnswer, NotDelivered, deliver
from sluice.airflow.hook import PlatformHook
from sluice.config import streams
from sluice.config.reading.toml import ConfigError
from sluice.config.sections import notifications
from sluice.config.sections.notifications import Event, Rule
from sluice.core import addresses as pages
from sluice.core.error_codes import ErrorCode, code_in, code_of, with_code
from sluice.core.errors import ClientError
from sluice.ledger.keys import DELIVERED, NOTIFIED, UNDELIVERED, history_key, history_name, moment, run_key
from sluice.notify.texts import Notification, after, due, notification, scheduled_condition

if TYPE_CHECKING:
    from sluice.ledger.documents import Ledger
    from sluice.ledger.history import History

log = logging.getLogger(__name__)

MAINTENANCE = "maintenance"
# DAGs whose next run finds the same again: told once per outage, as supervision is.
SCHEDULED = (MAINTENANCE, "reconciliation")
# Kind of the DAG that is there while something is wrong that belongs to no stream; in place of its stream.
CONFIGURATION, INSTALLATION = "configuration", notifications.INSTALLATION
# Undelivered notifications: how many of the newest a check reads; how many it delivers, oldest first.
MAX_OPEN, MAX_DELIVERED = 50, 5
# In the context of a callback in the DAG processor, which takes no XCom.
IN_PROCESSOR = "sluice_in_processor"
# Texts of a recovery.
SUCCEEDS, NONE = "succeeds again", "no action needed"
WHO_APPROVES = "every Airflow user who may update required actions (HITL details) of DAG {dag}"


@dataclass(frozen=True)
class Told:
    """What the rules were told since the last recovery, and when that was recorded; None: never."""

    conditions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    at: datetime | None = None


def rules_for(stream: str) -> list[Rule]:
    """The rules over a stream. Raises ConfigError for an invalid notifications.toml."""
    return notifications.load(streams.names(), is_strict=False).covering(stream)


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
    """A notification with its addresses; ``run``: dag and run id; ``more``: of :func:`notification`."""
    base = _base_url()
    page = f"{base.rstrip('/')}/{pages.STREAMS if stream == INSTALLATION else pages.stream_page(stream)}"
    more = {"link": pages.run_page(base, *run, task), **more}
    return notification(event, stream, about, message, page=page, run=run, **more)


def request(stream: str, about: str, message: object, run: tuple[str, str], task: str) -> Notification:
    """Compose the notification of an approval that ``task`` of ``run`` asks for."""
    link = pages.answer_page(_base_url(), *run, task)
    remedy = f"answer at {link} (Required Actions); who may: {WHO_APPROVES.format(dag=run[0])}"
    return compose(Event.APPROVAL, stream, about, message, run, link=link, remedy=remedy)


def form(stream: str) -> str:
    """Address of the page with the trigger form of ``<stream>_stream``, for its actions."""
    return pages.dag_page(_base_url(), f"{stream}_stream")


def _base_url() -> str:
    return str(conf.get("api", "base_url", fallback="http://localhost:8080"))


def is_told(history: History, stream: str) -> bool:
    """Whether a person was told of an outage and not of its end, or not of a run that failed. A few
    requests, none without rules."""
    rules = rules_for(stream)
    if not rules:
        return False
    return bool(due(rules, _told(history).conditions, "")) or bool(_open(history))


def tell(history: History, note: Notification, condition: str, context: Mapping[str, Any]) -> None:
    """Tell of ``condition`` unless it was told since the last recovery; "" is the recovery.

    A rule whose notifier fails is due again at the next call. Raises NotDelivered, ConfigError; ClientError
    if it is unknown what was told.
    """
    rules = rules_for(note.stream)
    if rules:
        _tell(rules, history, _told(history), note, condition, context)


def tell_anyway(
    name: str, note: Notification, condition: str, context: Mapping[str, Any], was_told: Callable[[], bool]
) -> bool:
    """:func:`tell`, with the history ``name``; if that does not answer, unless ``was_told`` says that a
    person knows. Whether it was told without the history. Raises NotDelivered, ConfigError."""
    rules = rules_for(note.stream)
    if not rules:
        return False
    try:
        history = _history(name)
        told = _told(history)
    except (ClientError, ConfigError) as error:
        # This is often why it is told.
        log.warning("history does not answer: %s", error)
        if was_told():
            return False
        _check_delivered(deliver(_covering(rules, note), note, context))
        return True
    _tell(rules, history, told, note, condition, context)
    return False


def _tell(
    rules: Sequence[Rule],
    history: History,
    told: Told,
    note: Notification,
    condition: str,
    context: Mapping[str, Any],
) -> None:
    known = _remembered(context, history, told)
    waiting = due(rules, known.conditions, condition)
    failures = deliver(_covering(waiting, note), note, context)
    done = [rule for rule in waiting if rule.id not in failures]
    unanswered = [rule for rule in waiting if isinstance(failures.get(rule.id), NoAnswer)]
    conditions = after(rules, known.conditions, condition, done, unanswered)
    if conditions != told.conditions:
        delivered = [rule.id for rule in _covering(done, note)]
        # The newest record counts, also after one of a clock that was ahead.
        now = datetime.now(UTC)
        at = max(now, known.at + timedelta(microseconds=1)) if known.at else now
        document = _document(note, delivered) | {"told": conditions}
        try:
            history.record_run(NOTIFIED, document, at)
        except ClientError as error:
            # Told again it would be a message per check, for as long as the ledger cannot be written.
            log.error("what was told is not recorded: %s", with_code(code_of(error), error))
            _remember(context, history, Told(conditions, at))
    _check_delivered(failures)


def tell_of_run(
    connect: Callable[[], Ledger],
    note: Notification,
    started: datetime | None,
    context: Mapping[str, Any],
    *,
    is_repeated: bool = False,
) -> None:
    """Tell of a run unless it was told since its start; each event of it once. What is not delivered is
    recorded for :func:`tell_open`.

    If the ledger does not answer it is told, unless it ``is_repeated``: a task of the run has told. Raises
    NotDelivered, ConfigError.
    """
    rules = _covering(rules_for(note.stream), note)
    if not rules:
        return
    dag, run = note.run
    key = run_key(run, f"notified-{dag}-{note.event.value}-{moment(started) if started else 'unknown'}")
    ledger: Ledger | None = None
    try:
        ledger = connect()
        if ledger.get(key):
            return
    except (ClientError, ConfigError) as error:
        log.warning("ledger does not answer: %s", error)
        if is_repeated:
            return
    failures = deliver(rules, note, context)
    if ledger is not None:
        _record_of_run(ledger, key, note, [rule.id for rule in rules if rule.id not in failures], failures)
    _check_delivered(failures)


def _record_of_run(
    ledger: Ledger, key: str, note: Notification, delivered: Sequence[str], failures: Mapping[str, str]
) -> None:
    try:
        if failures:
            now = datetime.now(UTC)
            document = _undelivered(note, now, delivered, _unanswered(failures))
            ledger.put(history_key(UNDELIVERED, now, "run"), document)
        ledger.put(key, _document(note, delivered))
    except ClientError as error:
        log.error("what was told is not recorded: %s", with_code(code_of(error), error))


def tell_open(history: History, stream: str, context: Mapping[str, Any]) -> None:
    """Deliver what was not delivered of the stream's runs, the oldest first, up to the first failure.

    Raises NotDelivered, ConfigError, ClientError.
    """
    rules = rules_for(stream)
    for key, at in _open(history)[:MAX_DELIVERED] if rules else []:
        document = history.get(key)
        if document is None:
            continue
        given = document["notification"]
        note = Notification(**{**given, "event": Event(given["event"]), "run": tuple(given["run"])})
        waiting = [rule for rule in _covering(rules, note) if rule.id not in document["delivered"]]
        failures = deliver(waiting, note, context)
        # Who gives no answer twice counts as told.
        left = {rule: why for rule, why in failures.items() if not _is_second(document, rule, why)}
        delivered = [*document["delivered"], *(rule.id for rule in waiting if rule.id not in left)]
        unanswered = [*document["unanswered"], *_unanswered(left)]
        if left and (delivered, unanswered) != (document["delivered"], document["unanswered"]):
            now = datetime.now(UTC)
            document = _undelivered(note, now, delivered, unanswered)
            history.put(history_key(UNDELIVERED, now, "run"), document)
        elif left:
            _check_delivered(failures)
        history.put(history_key(DELIVERED, at, "run"), {"at": datetime.now(UTC).isoformat()})
        _check_delivered(failures)


def _open(history: History) -> list[tuple[str, datetime]]:
    """Key and time of what is not delivered, oldest first. One request if there is none."""
    found = history.newest_keys(UNDELIVERED, MAX_OPEN)
    done = {at for _, at in history.newest_keys(DELIVERED, MAX_OPEN)} if found else set()
    return sorted(((key, at) for key, at in found if at not in done), key=lambda one: one[1])


def _undelivered(
    note: Notification, at: datetime, delivered: Collection[str], unanswered: Collection[str]
) -> dict[str, Any]:
    return {
        "at": at.isoformat(),
        "notification": asdict(note),
        "delivered": list(delivered),
        "unanswered": list(unanswered),
    }


def _unanswered(failures: Mapping[str, str]) -> list[str]:
    return [rule for rule, reason in failures.items() if isinstance(reason, NoAnswer)]


def _is_second(document: Mapping[str, Any], rule: str, reason: str) -> bool:
    return isinstance(reason, NoAnswer) and rule in document["unanswered"]


def task_failed(context: Mapping[str, Any]) -> None:
    """``on_failure_callback`` of every task over a stream: it failed for good.

    Airflow calls it in the task's own process, with the exception; if that was killed, the scheduler finds it
    and the DAG processor calls it, without one. Not a listener, which no process calls for a killed worker,
    and not a last task of the DAG, which would take a worker for each run that is well. A failure to deliver
    is logged: the task is red already, and the next check, or the run's own callback, tries again.
    """
    error = context.get("exception")
    _attempt(lambda: _task_failed(context if error is not None else {**context, IN_PROCESSOR: True}, error))


def _task_failed(context: Mapping[str, Any], error: object) -> None:
    task = context["task"]
    message = _reason(error, task.task_id)
    code = code_in(message) or ErrorCode.PROCESS_FAILED
    if code is ErrorCode.NOT_DELIVERED:
        return
    dag_id, run_id = task.dag_id, context["run_id"]
    stream, kind = task.stream, dag_id.removeprefix(f"{task.stream}_")
    if kind == "stream":
        about = getattr(task, "component", None) or task.task_id
        acts = {"form": form(stream)} if hasattr(task, "component") else {}
        note = compose(Event.ALERT, stream, about, message, (dag_id, run_id), task=task.task_id, **acts)
        # The alert's name is the maintenance's, whose success ends it, and not the consumer's, which is well.
        is_overdue = code is ErrorCode.MAINTENANCE_OVERDUE
        name = f"{stream}.{MAINTENANCE}" if is_overdue else history_name(stream, about)
        tell_anyway(name, note, code.value, context, lambda: _failed_before(context))
        return
    if kind == CONFIGURATION:
        # The DAG is gone when it is corrected, so no run tells of that: told again the next day.
        condition = f"{code.value} {_digest(message)} {_today()}"
        note = compose(Event.ALERT, stream, kind, message, (dag_id, run_id), task=task.task_id)
        name = f"{stream}.{kind}"
        tell_anyway(name, note, condition, context, lambda: _failed_before(context))
        return
    about = f"{kind} {task.task_id}"
    note = compose(Event.FAILURE, stream, about, message, (dag_id, run_id), task=task.task_id)
    if kind in SCHEDULED:
        tell(_history(f"{stream}.{kind}"), note, scheduled_condition(task.task_id, message), context)
    else:
        tell_of_run(lambda: _history(stream), note, start_of(context), context)


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def task_succeeded(context: Mapping[str, Any]) -> None:
    """``on_success_callback`` of a task of supervision that is no component."""

    def telling() -> None:
        task = context["task"]
        run = (task.dag_id, context["run_id"])
        note = compose(
            Event.RECOVERY, task.stream, task.task_id, SUCCEEDS, run, task=task.task_id, remedy=NONE
        )
        tell(_history(history_name(task.stream, task.task_id)), note, "", context)

    _attempt(telling)


def run_failed(stream: str, context: Mapping[str, Any]) -> None:
    """``on_failure_callback`` of a DAG, in the DAG processor: of a run that failed without a failed task (it
    timed out), or whose failed task notified no one."""
    _attempt(lambda: _run_failed(stream, {**context, IN_PROCESSOR: True}))


def _run_failed(stream: str, context: Mapping[str, Any]) -> None:
    dag, reason = context["dag"], context.get("reason") or "unknown"
    kind, run = dag.dag_id.removeprefix(f"{stream}_"), (dag.dag_id, context["run_id"])
    has_failed_task = reason == "task_failure"
    if kind in SCHEDULED and has_failed_task:
        return
    text = reason
    if reason == "timed_out":
        text = f"timed out after {dag.dagrun_timeout}; its unfinished tasks were skipped"
    message = f"{ErrorCode.PROCESS_FAILED} the run failed: {text}"
    remedy = "see the run's tasks and their logs; clear the first one that failed or was skipped"
    note = compose(Event.FAILURE, stream, kind, message, run, remedy=remedy)
    if kind in SCHEDULED:
        tell(_history(f"{stream}.{kind}"), note, f"run: {reason}", context)
    else:
        started = start_of(context)
        tell_of_run(lambda: _history(stream), note, started, context, is_repeated=has_failed_task)


def run_succeeded(stream: str, context: Mapping[str, Any]) -> None:
    """``on_success_callback`` of a DAG of SCHEDULED, in the DAG processor."""

    def telling() -> None:
        dag_id = context["dag"].dag_id
        kind = dag_id.removeprefix(f"{stream}_")
        run = (dag_id, context["run_id"])
        note = compose(Event.RECOVERY, stream, kind, SUCCEEDS, run, remedy=NONE)
        tell(_history(f"{stream}.{kind}"), note, "", {**context, IN_PROCESSOR: True})

    _attempt(telling)


def _failed_before(context: Mapping[str, Any]) -> bool:
    """Whether the task of the run before failed too, or that cannot be asked. False if Airflow does not know.

    Airflow finds the run before by its logical date: of a run without one it may answer any run.
    """
    if not _has_logical_date(context):
        return True
    before = _before(context)
    return before is not None and before.state == "failed"


def _has_logical_date(context: Mapping[str, Any]) -> bool:
    return getattr(context.get("dag_run"), "logical_date", None) is not None


def _before(context: Mapping[str, Any]) -> Any:
    """The task's instance of the run before; None if there is none, or Airflow does not know."""
    ti = context.get("ti")
    if ti is None or not _has_logical_date(context):
        return None
    try:
        before = ti.get_previous_ti()
    except AirflowRuntimeError as error:
        log.warning("previous task instance unknown: %s", error)
        return None
    return None if before is None or before.run_id == context["run_id"] else before


def _remembered(context: Mapping[str, Any], history: History, told: Told) -> Told:
    """What the run before told and could not record, if that is newer than ``told``."""
    before = None if IN_PROCESSOR in context else _before(context)
    if before is None:
        return told
    ti = context["ti"]
    try:
        kept = ti.xcom_pull(task_ids=ti.task_id, key=_memory(history), run_id=before.run_id, map_indexes=-1)
    except AirflowRuntimeError as error:
        log.warning("what the run before told is unknown: %s", error)
        return told
    if not kept:
        return told
    at = datetime.fromisoformat(kept["at"])
    if told.at and told.at >= at:
        return told
    return Told(kept["told"], at)


def _remember(context: Mapping[str, Any], history: History, told: Told) -> None:
    """For the run after, as an XCom: it asks before it tells the same again."""
    ti = context.get("ti")
    if ti is None or told.at is None or IN_PROCESSOR in context:
        return
    value = {"at": told.at.isoformat(), "told": told.conditions}
    try:
        ti.xcom_push(key=_memory(history), value=value)
    except AirflowRuntimeError as error:
        log.error("what was told is not kept for the run after: %s", error)


def _memory(history: History) -> str:
    return f"told_{history.stream}"


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


def start_of(context: Mapping[str, Any]) -> datetime | None:
    """Return when the run started; a cleared run starts again, so it may be reported again."""
    start: datetime | None = getattr(context.get("dag_run"), "start_date", None)
    return start


def _document(note: Notification, delivered: Sequence[str]) -> dict[str, Any]:
    return {
        "event": note.event.value,
        "message": note.message,
        "dag": note.run[0],
        "run": note.run[1],
        "delivered": list(delivered),
    }


def _told(history: History) -> Told:
    for key, at in history.newest_keys(NOTIFIED, 1):
        newest = history.get(key)
        return Told(newest["told"], at) if newest else Told()
    return Told()


def _covering(rules: Sequence[Rule], note: Notification) -> list[Rule]:
    return [rule for rule in rules if rule.covers(note.event, note.stream)]


def _history(name: str) -> History:
    return PlatformHook().brief_history(name)
