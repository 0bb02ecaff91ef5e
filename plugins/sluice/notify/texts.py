"""What a person is told, and which change tells it: once per outage, and then its end."""

from __future__ import annotations

import html
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sluice.config.sections.notifications import Event, Rule
from sluice.config.stream import CONSUMER
from sluice.core.error_codes import ErrorCode, code_in
from sluice.core.findings import names_in
from sluice.notify import remedies
from sluice.supervision.rules.status import Health

MAX_CHARACTERS = 500
# A broken component's conditions: health statuses, failures and requests of one outage are fewer.
MAX_CONDITIONS = 50
# Rule -> conditions told since the last recovery. A rule that does not cover an event has them
# too: it has nothing to tell of it either.
Told = Mapping[str, Sequence[str]]
# Ends a condition whose notifier gave no answer in time: it may have told, and is called once more.
UNANSWERED = " (no answer)"


@dataclass(frozen=True)
class Notification:
    """``message``: one line; ``link``: the run, task or request; ``page``: of the stream; ``remedy``: the way
    out; ``run``: that found it, as dag and run id; ``form``: where a person restarts, stops or starts the
    component, empty if it is about none."""

    event: Event
    stream: str
    subject: str
    message: str
    link: str
    page: str
    remedy: str
    run: tuple[str, str]
    form: str = ""

    @property
    def text(self) -> str:
        places = [f"{title}: {address}" for title, address in self._places()]
        return "\n".join([self.message, "", f"Fix: {self.remedy}", *places])

    def _places(self) -> list[tuple[str, str]]:
        places = [("See", self.link), ("Stream", self.page), ("Restart or stop it", self.form)]
        return [(title, address) for title, address in places if address]

    def values(self) -> dict[str, str]:
        """For the templates of a notifier's arguments, as ``sluice``."""
        return {
            "event": self.event.value,
            "stream": self.stream,
            "subject": self.subject,
            "message": self.message,
            "link": self.link,
            "page": self.page,
            "remedy": self.remedy,
            "form": self.form,
            "dag_id": self.run[0],
            "run_id": self.run[1],
            "text": self.text,
            "html": self.html,
        }

    @property
    def html(self) -> str:
        """Messages quote logs and sources, so all of it is escaped."""
        message, remedy = html.escape(self.message), html.escape(self.remedy)
        places = "<br>".join(f"{title}: {_anchor(address)}" for title, address in self._places())
        return f"<p>{message}</p>\n<p>Fix: {remedy}</p>\n<p>{places}</p>"


def notification(
    event: Event,
    stream: str,
    about: str,
    message: object,
    *,
    link: str,
    page: str,
    run: tuple[str, str],
    remedy: str = "",
    form: str = "",
) -> Notification:
    """``about``: the component or DAG. Without ``remedy``: that of the code in ``message``, of a health with
    its way out."""
    text = one_line(message)
    code = code_in(text)
    subject = f"Sluice {event.value}: {stream} {about}: {text}"
    return Notification(
        event=event,
        stream=stream,
        subject=subject if len(subject) <= 120 else f"{subject[:117]}...",
        message=f"{stream} {about}: {text}",
        link=link,
        page=page,
        remedy=remedy or remedies.remedy(code or ErrorCode.PROCESS_FAILED, stream),
        run=run,
        form=form,
    )


def one_line(message: object) -> str:
    """The first line, printable and truncated: a mail's subject must not contain a line break."""
    first = next((line for line in str(message).splitlines() if line.strip()), "no reason given")
    text = "".join(character if character.isprintable() else " " for character in first).strip()
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"


def has_recovered(component: str, health: Health) -> bool:
    """Whether this health ends what was told. A start may fail again, and who suspended it knows."""
    well = {Health.HEALTHY, Health.IDLE, Health.CATCHING_UP}
    return health in (well if component == CONSUMER else well | {Health.FENCED})


def scheduled_condition(task: str, message: str) -> str:
    """Name a scheduled run's failure by its code and the names of all findings, also those that the message
    does not show. Without the numbers, which differ from run to run of the same outage."""
    return " ".join([f"{task}:", (code_in(message) or ErrorCode.PROCESS_FAILED).value, *names_in(message)])


def due(rules: Iterable[Rule], told: Told, condition: str) -> list[Rule]:
    """The rules that were not told of ``condition`` since the last recovery; of "", which is a recovery:
    those that were told of anything."""
    if not condition:
        return [rule for rule in rules if told.get(rule.id)]
    return [rule for rule in rules if condition not in told.get(rule.id, ())]


def after(
    rules: Iterable[Rule],
    told: Told,
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
        return earlier != mark and not (is_other and earlier.removesuffix(UNANSWERED) in remedies.HEALTHS)

    return {rule.id: kept[-MAX_CONDITIONS:] for rule in rules if (kept := conditions(rule))}


def _anchor(address: str) -> str:
    escaped = html.escape(address)
    return f'<a href="{escaped}">{escaped}</a>'
