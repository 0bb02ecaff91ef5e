"""``notifications.toml`` beside the platform files: which events go to which Airflow notifiers."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from sluice.config.platform import DIRECTORY_VARIABLE
from sluice.config.reading import files
from sluice.config.reading import toml as config
from sluice.config.reading.toml import ConfigError, build
from sluice.config.reading.urls import is_loopback

log = logging.getLogger(__name__)

# Names the user's file; a stack copies it to its platform folder.
VARIABLE = "SLUICE_NOTIFICATIONS"
NAME = "notifications"
FILE = f"{NAME}.toml"
SMTP = "smtp"
# What a mail server's connection may say as `ssl_context`.
UNVERIFIED = "none"
# Short names of notifiers; any other is a class path.
CLASSES = {SMTP: "airflow.providers.smtp.notifications.smtp.SmtpNotifier"}
# Arguments of a short name that the file may leave out: Jinja templates, as of every notifier.
DEFAULTS: Mapping[str, Mapping[str, str]] = {
    SMTP: {"subject": "{{ sluice.subject }}", "html_content": "{{ sluice.html }}"}
}


# In place of a stream: what concerns them all, and so every rule.
INSTALLATION = "sluice"


class Event(StrEnum):
    """What a person is told of."""

    # A component's health or its supervision needs a person.
    ALERT = "alert"
    # A change needs a person's approval.
    APPROVAL = "approval"
    # Supervision did not end in time.
    DEADLINE = "deadline"
    # A load, backfill, change, maintenance, reconciliation or check of connections failed.
    FAILURE = "failure"
    # What was told of before is well again.
    RECOVERY = "recovery"


@dataclass(frozen=True)
class Rule:
    """One ``[[notify]]``: a notifier, its arguments, and for which events of which streams."""

    notifier: Annotated[str, "`smtp`, or the class path of a notifier whose package Airflow has"]
    events: Annotated[
        list[str],
        "which of the events below; default: all",
    ] = field(default_factory=lambda: [event.value for event in Event])
    streams: Annotated[list[str] | None, "of which streams; default: all"] = None
    arguments: Annotated[
        dict[str, Any],
        "of the notifier. Templates know `sluice.text`, `.html`, `.subject`, `.message`, `.remedy`, "
        "`.link`, `.page`, `.form`, `.event`, `.stream`, `.dag_id` and `.run_id`. `smtp` needs `to`; its "
        "`subject` and `html_content` have defaults, and `smtp_conn_id` names another connection",
    ] = field(default_factory=dict)

    @property
    def class_path(self) -> str:
        return CLASSES.get(self.notifier, self.notifier)

    @property
    def values(self) -> dict[str, Any]:
        """The notifier's arguments with the defaults of its short name."""
        return {**DEFAULTS.get(self.notifier, {}), **self.arguments}

    @property
    def id(self) -> str:
        """Name of the rule in the history: another one for other content, so that a new rule is told of what
        is broken already."""
        content = json.dumps(asdict(self), sort_keys=True, default=str)
        return f"{self.notifier.rsplit('.', 1)[-1]}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"

    def is_of(self, stream: str) -> bool:
        return self.streams is None or stream in (*self.streams, INSTALLATION)

    def covers(self, event: Event, stream: str) -> bool:
        return event.value in self.events and self.is_of(stream)


@dataclass(frozen=True)
class Notifications:
    """The rules. None: no person is told."""

    notify: list[Rule] = field(default_factory=list)

    def covering(self, stream: str) -> list[Rule]:
        return [rule for rule in self.notify if rule.is_of(stream)]


def parse(text: str, where: str, streams: Collection[str], *, is_strict: bool = True) -> Notifications:
    """Raises ConfigError naming ``where`` and the key. ``streams``: those that exist; the name of another one
    is a warning if it is not strict, for such a stream must not mute all others."""
    found = build(Notifications, config.toml(text, where), where)
    for number, rule in enumerate(found.notify, 1):
        try:
            _check_streams(rule, f"{where}: notify {number}", streams)
        except ConfigError as error:
            if is_strict or not rule.streams:
                raise
            log.warning("%s", error)
        _check(rule, f"{where}: notify {number}")
    return found


def read(file: str, streams: Collection[str]) -> str:
    """The text of the user's file, checked. Raises ConfigError."""
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(
            f"{VARIABLE}={file}: {reason}. Fix: correct the path, or set the variable empty"
        ) from error
    parse(text, file, streams)
    return text


def load(
    streams: Collection[str], environ: Mapping[str, str] | None = None, *, is_strict: bool = True
) -> Notifications:
    """Read the file; no rules without one. Raises ConfigError as :func:`files.read` and :func:`parse`."""
    folder = (os.environ if environ is None else environ).get(DIRECTORY_VARIABLE)
    if not folder or not (Path(folder) / FILE).exists():
        return Notifications()
    path, text = files.read(DIRECTORY_VARIABLE, NAME, "notifications need this file", environ)
    return parse(text, path, streams, is_strict=is_strict)


def _check_streams(rule: Rule, where: str, streams: Collection[str]) -> None:
    if rule.streams is not None:
        _among(rule.streams, streams, f"{where} streams")


def _check(rule: Rule, where: str) -> None:
    if rule.notifier not in CLASSES and "." not in rule.notifier:
        raise ConfigError(
            f"{where} notifier: {rule.notifier!r} is unknown. Fix: give {', '.join(CLASSES)}, or the path of "
            "a notifier's class (package.module.Class)"
        )
    _among(rule.events, [event.value for event in Event], f"{where} events")
    if rule.notifier == SMTP and not rule.arguments.get("to"):
        raise ConfigError(f"{where} arguments: key 'to' is missing. Fix: add to = \"name@example.com\"")


def check_mail_server(name: str, host: str, extra: Mapping[str, Any]) -> None:
    """Raise ConfigError for an Airflow connection ``name`` whose mail server on another machine would get a
    login without being verified. ``extra``: its JSON.

    Without encryption it is by declaration alone: the provider asks for SSL or STARTTLS otherwise, and goes
    on with nothing less."""
    if extra.get("ssl_context") == UNVERIFIED and not is_loopback(host):
        raise ConfigError(
            f"connection {name}: ssl_context is {UNVERIFIED!r}: the certificate of {host}, which is another "
            "machine, would not be verified. Fix: remove ssl_context, and name the file with the server's CA "
            "as SSL_CERT_FILE in Airflow's environment if it is none of the system's"
        )


def _among(given: list[str], known: Collection[str], where: str) -> None:
    if not given:
        raise ConfigError(f"{where}: the list is empty. Fix: leave the key out for all")
    for value in given:
        if value not in known:
            raise ConfigError(f"{where}: {value!r} is unknown; known are {', '.join(sorted(known))}")
