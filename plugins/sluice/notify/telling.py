"""Tell a person of a change, once, and record it in the ledger's history after it was delivered."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from sluice.config import notifications, streams
from sluice.config.notifications import Event, Rule
from sluice.config.reading.toml import ConfigError
from sluice.core.error_codes import ErrorCode, code_of, with_code
from sluice.core.errors import ClientError
from sluice.core.json_record import Document
from sluice.ledger.keys import DELIVERED, NOTIFIED, UNDELIVERED, history_key, moment, run_key
from sluice.notify.conditions import Conditions, Told, after, due, without_ended
from sluice.notify.occasions import Occasion, about_findings, conditions_of
from sluice.notify.texts import Notification

log = logging.getLogger(__name__)

# Undelivered notifications: how many of the newest a check reads; how many it delivers, oldest first.
MAX_OPEN, MAX_DELIVERED = 50, 5
# Findings of one notification; the others come with the next run.
MAX_FINDINGS = 20
Compose = Callable[[Occasion], Notification]


class NoAnswer(str):
    """Why a notifier failed that did not return in time. It may have told all the same."""


class NotDelivered(Exception):
    """At least one notifier failed."""

    code = ErrorCode.NOT_DELIVERED


class Documents(Protocol):
    """A stream's ledger (``ledger.documents.Ledger``)."""

    def get(self, key: str) -> Document | None: ...
    def put(self, key: str, document: Document) -> Document: ...


class History(Documents, Protocol):
    """A stream's history (``ledger.history.History``)."""

    stream: str

    def newest_keys(self, kind: str, limit: int) -> list[tuple[str, datetime]]: ...
    def record_run(self, kind: str, document: Document, at: datetime) -> str: ...


class Channel(Protocol):
    """What a run has to tell people with, and the run after it."""

    @property
    def started(self) -> datetime | None:
        """When the run started."""

    def failed_before(self) -> bool:
        """Whether the run before failed alike, and so has told, or that is not known."""

    def deliver(self, rules: Sequence[Rule], note: Notification) -> Mapping[str, str]:
        """Call the rules' notifiers. Returns rule id -> reason of those that failed; NoAnswer of those that
        did not return in time."""

    def remembered(self, name: str) -> Told | None:
        """What the run before told and could not record in history ``name``."""

    def remember(self, name: str, told: Told) -> None:
        """For the run after, which asks before it tells the same again."""


def rules_for(stream: str) -> list[Rule]:
    """The rules over a stream. Raises ConfigError for an invalid notifications.toml."""
    return notifications.load(streams.names(), is_strict=False).covering(stream)


def is_told(history: History, stream: str) -> bool:
    """Whether a person was told of an outage and not of its end, or not of a run that failed. A few
    requests, none without rules."""
    rules = rules_for(stream)
    if not rules:
        return False
    return bool(due(rules, _told(history).conditions, "")) or bool(_open(history))


def tell_occasion(
    occasion: Occasion, compose: Compose, connect: Callable[[str], History], channel: Channel
) -> None:
    """Tell of ``occasion``; ``connect``: the history of a name. Raises NotDelivered, ConfigError,
    ClientError."""
    outage = occasion.outage
    if occasion.findings:
        _tell_findings(connect(outage), occasion, compose, channel)
        return
    note = compose(occasion)
    if not outage:
        repeated = occasion.is_repeated
        tell_of_run(lambda: connect(occasion.stream), note, channel, is_repeated=repeated)
    elif occasion.is_urgent:
        tell_anyway(lambda: connect(outage), note, occasion.condition, channel)
    else:
        tell(connect(outage), note, occasion.condition, channel)


def tell(history: History, note: Notification, condition: str, channel: Channel) -> None:
    """Tell of ``condition`` unless it was told since the last recovery; "" is the recovery.

    A rule whose notifier fails is due again at the next call. Raises NotDelivered, ConfigError; ClientError
    if it is unknown what was told.
    """
    rules = rules_for(note.stream)
    if rules:
        _tell(rules, history, _told(history), note, condition, channel)


def _tell_findings(history: History, occasion: Occasion, compose: Compose, channel: Channel) -> None:
    """Tell of each finding once, and again if it was none meanwhile."""
    rules, found = rules_for(occasion.stream), conditions_of(occasion)
    if not rules:
        return
    told = _told(history)
    known = _newest(told, channel.remembered(history.stream))
    before: Conditions = without_ended(known.conditions, f"{occasion.condition} ", found)
    new = [one for one in found if due(rules, before, one)][:MAX_FINDINGS]
    waiting = {one: due(rules, before, one) for one in new}
    all_waiting = [rule for rule in rules if any(rule in due_now for due_now in waiting.values())]
    note = compose(about_findings(occasion, [found[one] for one in new]))
    failures = channel.deliver(_covering(all_waiting, note), note)
    no_answer = _unanswered(failures)
    for one, due_now in waiting.items():
        done = [rule for rule in due_now if rule.id not in failures]
        before = after(rules, before, one, done, [rule for rule in due_now if rule.id in no_answer])
    done = [rule for rule in all_waiting if rule.id not in failures]
    _record(history, note, _covering(done, note), told, Told(before, known.at), channel)
    _check_delivered(failures)


def tell_anyway(connect: Callable[[], History], note: Notification, condition: str, channel: Channel) -> bool:
    """:func:`tell`; if the history does not answer, unless the run before ``failed_before``. Whether it was
    told without the history. Raises NotDelivered, ConfigError."""
    rules = rules_for(note.stream)
    if not rules:
        return False
    try:
        history = connect()
        told = _told(history)
    except (ClientError, ConfigError) as error:
        # This is often why it is told.
        log.warning("history does not answer: %s", error)
        if channel.failed_before():
            return False
        _check_delivered(channel.deliver(_covering(rules, note), note))
        return True
    _tell(rules, history, told, note, condition, channel)
    return False


def _tell(
    rules: Sequence[Rule], history: History, told: Told, note: Notification, condition: str, channel: Channel
) -> None:
    known = _newest(told, channel.remembered(history.stream))
    waiting = due(rules, known.conditions, condition)
    failures = channel.deliver(_covering(waiting, note), note)
    done = [rule for rule in waiting if rule.id not in failures]
    unanswered = [rule for rule in waiting if isinstance(failures.get(rule.id), NoAnswer)]
    conditions = after(rules, known.conditions, condition, done, unanswered)
    _record(history, note, _covering(done, note), told, Told(conditions, known.at), channel)
    _check_delivered(failures)


def _record(
    history: History, note: Notification, done: Sequence[Rule], told: Told, now_told: Told, channel: Channel
) -> None:
    """Record ``now_told`` unless it is what was ``told``. ``done``: the rules that were told now."""
    if now_told.conditions == told.conditions:
        return
    # The newest record counts, also after one of a clock that was ahead.
    now = datetime.now(UTC)
    at = max(now, now_told.at + timedelta(microseconds=1)) if now_told.at else now
    document = _document(note, [rule.id for rule in done]) | {"told": now_told.conditions}
    try:
        history.record_run(NOTIFIED, document, at)
    except ClientError as error:
        # Told again it would be a message per check, for as long as the ledger cannot be written.
        log.error("what was told is not recorded: %s", with_code(code_of(error), error))
        channel.remember(history.stream, Told(now_told.conditions, at))


def tell_of_run(
    connect: Callable[[], Documents], note: Notification, channel: Channel, *, is_repeated: bool = False
) -> None:
    """Tell of a run unless it was told since its start; each event of it once. What is not delivered is
    recorded for :func:`tell_open`.

    If the ledger does not answer it is told, unless it ``is_repeated``: a task of the run has told. Raises
    NotDelivered, ConfigError.
    """
    rules = _covering(rules_for(note.stream), note)
    if not rules:
        return
    (dag, run), started = note.run, channel.started
    key = run_key(run, f"notified-{dag}-{note.event.value}-{moment(started) if started else 'unknown'}")
    ledger: Documents | None = None
    try:
        ledger = connect()
        if ledger.get(key):
            return
    except (ClientError, ConfigError) as error:
        log.warning("ledger does not answer: %s", error)
        if is_repeated:
            return
    failures = channel.deliver(rules, note)
    if ledger is not None:
        _record_of_run(ledger, key, note, [rule.id for rule in rules if rule.id not in failures], failures)
    _check_delivered(failures)


def _record_of_run(
    ledger: Documents, key: str, note: Notification, delivered: Sequence[str], failures: Mapping[str, str]
) -> None:
    try:
        if failures:
            now = datetime.now(UTC)
            document = _undelivered(note, now, delivered, _unanswered(failures))
            ledger.put(history_key(UNDELIVERED, now, "run"), document)
        ledger.put(key, _document(note, delivered))
    except ClientError as error:
        log.error("what was told is not recorded: %s", with_code(code_of(error), error))


def tell_open(history: History, stream: str, channel: Channel) -> None:
    """Deliver what was not delivered of the stream's runs, the oldest first, up to the first failure.

    Raises NotDelivered, ConfigError, ClientError.
    """
    rules = rules_for(stream)
    for key, at in _open(history)[:MAX_DELIVERED] if rules else []:
        document = history.get(key)
        if document is None:
            continue
        given = document["notification"]
        read = {"event": Event(given["event"]), "run": tuple(given["run"])}
        note = Notification(**{**given, **read, "findings": tuple(given.get("findings", ()))})
        waiting = [rule for rule in _covering(rules, note) if rule.id not in document["delivered"]]
        failures = channel.deliver(waiting, note)
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


def _newest(recorded: Told, remembered: Told | None) -> Told:
    if remembered is None or remembered.at is None or (recorded.at and recorded.at >= remembered.at):
        return recorded
    return remembered


def _told(history: History) -> Told:
    for key, at in history.newest_keys(NOTIFIED, 1):
        newest = history.get(key)
        return Told(newest["told"], at) if newest else Told()
    return Told()


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


def _document(note: Notification, delivered: Sequence[str]) -> dict[str, Any]:
    return {
        "event": note.event.value,
        "message": note.message,
        "dag": note.run[0],
        "run": note.run[1],
        "delivered": list(delivered),
    }


def _unanswered(failures: Mapping[str, str]) -> list[str]:
    return [rule for rule, reason in failures.items() if isinstance(reason, NoAnswer)]


def _is_second(document: Mapping[str, Any], rule: str, reason: str) -> bool:
    return isinstance(reason, NoAnswer) and rule in document["unanswered"]


def _covering(rules: Sequence[Rule], note: Notification) -> list[Rule]:
    return [rule for rule in rules if rule.covers(note.event, note.stream)]


def _check_delivered(failures: Mapping[str, str]) -> None:
    if failures:
        reasons = "; ".join(f"{rule}: {reason}" for rule, reason in failures.items())
        raise NotDelivered(
            f"{len(failures)} notifier(s) failed: {reasons}. Fix: repair the notifier's system or its "
            f"Airflow connection, or correct {notifications.FILE}"
        )
