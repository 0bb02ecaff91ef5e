"""The text of a notification, with its addresses."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from sluice.config.notifications import INSTALLATION, Event
from sluice.core import addresses
from sluice.core.error_codes import ErrorCode, code_in
from sluice.notify import remedies

MAX_CHARACTERS = 500
WHO_APPROVES = "every Airflow user who may update required actions (HITL details) of DAG {dag}"


@dataclass(frozen=True)
class Notification:
    """A message to a person, with its addresses."""

    event: Event
    """Named in the subject; rules of notifications.toml choose by it."""
    stream: str
    """Its name, or INSTALLATION for what concerns them all."""
    subject: str
    """A mail's: 120 characters at most."""
    message: str
    """One line, MAX_CHARACTERS and the names before it at most."""
    link: str
    """Address of the run, task or request."""
    page: str
    """Address of the stream's page."""
    remedy: str
    """The way out."""
    run: tuple[str, str]
    """The one that found it, as dag and run id."""
    form: str = ""
    """Where a person restarts, stops or starts the component; empty if it is about none."""
    findings: tuple[str, ...] = ()
    """Those that are told, if the message has only some of them; each one line."""

    @property
    def text(self) -> str:
        places = [f"{title}: {address}" for title, address in self._places()]
        findings = [f"- {finding}" for finding in self.findings]
        return "\n".join([self.message, *findings, "", f"Fix: {self.remedy}", *places])

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
        items = "".join(f"<li>{html.escape(finding)}</li>" for finding in self.findings)
        findings = f"\n<ul>{items}</ul>" if items else ""
        return f"<p>{message}</p>{findings}\n<p>Fix: {remedy}</p>\n<p>{places}</p>"


def notification(
    event: Event,
    stream: str,
    about: str,
    message: object,
    run: tuple[str, str],
    *,
    base_url: str,
    task: str = "",
    link: str = "",
    remedy: str = "",
    form: str = "",
    findings: Sequence[str] = (),
) -> Notification:
    """``about``: the component or DAG; ``run``: dag and run id; ``base_url``: Airflow's. Without ``link``:
    the page of the run, or of ``task`` in it; without ``remedy``: that of the code in ``message``, of a
    health with its way out."""
    text = one_line(message)
    code = code_in(text)
    subject = f"Sluice {event.value}: {stream} {about}: {text}"
    page = addresses.STREAMS if stream == INSTALLATION else addresses.stream_page(stream)
    return Notification(
        event=event,
        stream=stream,
        subject=subject if len(subject) <= 120 else f"{subject[:117]}...",
        message=f"{stream} {about}: {text}",
        link=link or addresses.run_page(base_url, *run, task),
        page=f"{base_url.rstrip('/')}/{page}",
        remedy=remedy or remedies.remedy(code or ErrorCode.PROCESS_FAILED, stream),
        run=run,
        form=form,
        findings=tuple(map(one_line, findings)) if len(findings) > 1 else (),
    )


def approval_request(
    stream: str, about: str, message: object, run: tuple[str, str], task: str, base_url: str
) -> Notification:
    """The notification of an approval that ``task`` of ``run`` asks for."""
    link = addresses.answer_page(base_url, *run, task)
    remedy = f"answer at {link} (Required Actions); who may: {WHO_APPROVES.format(dag=run[0])}"
    return notification(
        Event.APPROVAL, stream, about, message, run, base_url=base_url, link=link, remedy=remedy
    )


def one_line(message: object) -> str:
    """The first line, printable and truncated: a mail's subject must not contain a line break."""
    first = next((line for line in str(message).splitlines() if line.strip()), "no reason given")
    text = "".join(character if character.isprintable() else " " for character in first).strip()
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…"


def _anchor(address: str) -> str:
    escaped = html.escape(address)
    return f'<a href="{escaped}">{escaped}</a>'
