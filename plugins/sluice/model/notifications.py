"""What a person is told, and which change tells it: once per outage, and then its end."""

from __future__ import annotations

import html
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sluice.model.error_codes import ErrorCode, code_in
from sluice.model.health.status import Health
from sluice.model.remedies import fix
from sluice.model.spec.notifications import Event, Rule
from sluice.model.spec.stream import CONSUMER

MAX_CHARACTERS = 500
# A broken component's conditions: health statuses, failures and requests of one outage are fewer.
MAX_CONDITIONS = 50
# Rule -> conditions told since the last recovery. Of a rule that does not cover an event too: it has nothing
# to tell of it either.
Told = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Notification:
    """``message``: one line; ``link``: the run, task or form; ``page``: of the stream; ``remedy``: the way
    out; ``run``: that found it, as dag and run id."""

    event: Event
    stream: str
    subject: str
    message: str
    link: str
    page: str
    remedy: str
    run: tuple[str, str]

    @property
    def text(self) -> str:
        return "\n".join(
            [self.message, "", f"Fix: {self.remedy}", f"See: {self.link}", f"Stream: {self.page}"]
        )

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
            "dag_id": self.run[0],
            "run_id": self.run[1],
            "text": self.text,
            "html": self.html,
        }

    @property
    def html(self) -> str:
        """Messages quote logs and sources, so all of it is escaped."""
        message, remedy = html.escape(self.message), html.escape(self.remedy)
        return (
            f"<p>{message}</p>\n<p>Fix: {remedy}</p>\n"
            f"<p>See: {_anchor(self.link)}<br>Stream: {_anchor(self.page)}</p>"
        )


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
) -> Notification:
    """``about``: the component or DAG. Without ``remedy``: that of the code in ``message``."""
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
        remedy=remedy or fix(code or ErrorCode.PROCESS_FAILED),
        run=run,
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


def due(rules: Iterable[Rule], told: Told, condition: str) -> list[Rule]:
    """The rules that were not told of ``condition`` since the last recovery; of "", which is a recovery:
    those that were told of anything."""
    if not condition:
        return [rule for rule in rules if told.get(rule.id)]
    return [rule for rule in rules if condition not in told.get(rule.id, ())]


def after(rules: Iterable[Rule], told: Told, condition: str, done: Collection[Rule]) -> dict[str, list[str]]:
    """``told`` after the rules of ``done`` were; without those that are no rules any more."""

    def conditions(rule: Rule) -> list[str]:
        before = list(told.get(rule.id, ()))
        if rule not in done:
            return before
        return [*before, condition][-MAX_CONDITIONS:] if condition else []

    return {rule.id: kept for rule in rules if (kept := conditions(rule))}


def _anchor(address: str) -> str:
    escaped = html.escape(address)
    return f'<a href="{escaped}">{escaped}</a>'
