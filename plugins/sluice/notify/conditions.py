"""Conditions of an outage: each rule is told once of each of them, and then of the outage's end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sluice.config.notifications import Rule
from sluice.config.stream import CONSUMER
from sluice.core.error_codes import ErrorCode, code_in
from sluice.core.findings import names_in
from sluice.notify.remedies import HEALTHS
from sluice.supervision.rules.status import Health

# A broken component's conditions: health statuses, failures and requests of one outage are fewer; findings of
# one check are, too.
MAX_CONDITIONS = 200
# Rule -> conditions told since the last recovery. A rule that does not cover an event has them
# too: it has nothing to tell of it either.
Conditions = Mapping[str, Sequence[str]]
# Ends a condition whose notifier gave no answer in time: it may have told, and is called once more.
UNANSWERED = " (no answer)"


@dataclass(frozen=True)
class Told:
    """What the rules were told since the last recovery, and when that was recorded; None: never."""

    conditions: Conditions = field(default_factory=dict)
    at: datetime | None = None


def ends_outage(component: str, health: Health) -> bool:
    """Whether this health ends what was told. A start may fail again, and who suspended it knows."""
    well = {Health.HEALTHY, Health.IDLE, Health.CATCHING_UP}
    return health in (well if component == CONSUMER else well | {Health.FENCED})


def scheduled_condition(task: str, message: str) -> str:
    """Name a scheduled run's failure by its code and the names of all findings, also those that the message
    does not show. Without the numbers, which differ from run to run of the same outage."""
    return " ".join([f"{task}:", (code_in(message) or ErrorCode.PROCESS_FAILED).value, *names_in(message)])


def due(rules: Iterable[Rule], told: Conditions, condition: str) -> list[Rule]:
    """The rules that were not told of ``condition`` since the last recovery; of "", which is a recovery:
    those that were told of anything."""
    if not condition:
        return [rule for rule in rules if told.get(rule.id)]
    return [rule for rule in rules if condition not in told.get(rule.id, ())]


def after(
    rules: Iterable[Rule],
    told: Conditions,
    condition: str,
    done: Collection[Rule],
    unanswered: Collection[Rule] = (),
) -> dict[str, list[str]]:
    """``told`` once ``condition`` holds and the rules of ``done`` were told; without those that are no rules
    any more. Who gives no answer twice counts as told."""
    mark = f"{condition}{UNANSWERED}"

    def conditions(rule: Rule) -> list[str]:
        before = list(told.get(rule.id, ()))
        if rule in unanswered and mark not in before:
            return [*before, mark]
        if rule in done or rule in unanswered:
            return [*(one for one in before if still_holds(one)), condition] if condition else []
        return [one for one in before if still_holds(one)] if condition in before else before

    def still_holds(earlier: str) -> bool:
        # A run that was late says nothing of the health.
        is_other = condition not in (earlier, ErrorCode.DEADLINE_MISSED)
        return earlier != mark and not (is_other and earlier.removesuffix(UNANSWERED) in HEALTHS)

    return {rule.id: kept[-MAX_CONDITIONS:] for rule in rules if (kept := conditions(rule))}


def without_ended(told: Conditions, begin: str, current: Collection[str]) -> dict[str, list[str]]:
    """``told`` without the findings that are none any more: conditions that begin with ``begin``, and are not
    ``current``. Found again they are told again."""

    def is_kept(condition: str) -> bool:
        return not condition.startswith(begin) or condition.removesuffix(UNANSWERED) in current

    found = {rule: [one for one in before if is_kept(one)] for rule, before in told.items()}
    return {rule: kept for rule, kept in found.items() if kept}
