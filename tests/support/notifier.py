"""A notifier that keeps what it was given, and a notifications.toml."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest
from airflow.sdk import BaseNotifier

from sluice.config.notifications import Event
from sluice.config.platform import DIRECTORY_VARIABLE
from sluice.notify.texts import Notification, notification

RECORDER = f"{__name__}.Recorder"


class Recorder(BaseNotifier):
    """``failure``: what the next calls raise; ``name``: of the rule; ``hangs``: until it is set."""

    template_fields = ("text",)
    sent: ClassVar[list[tuple[str, str]]] = []
    failing: ClassVar[dict[str, Exception]] = {}
    hanging: ClassVar[dict[str, threading.Event]] = {}

    def __init__(self, name: str = "a", text: str = "{{ sluice.text }}") -> None:
        super().__init__()
        self.name = name
        self.text = text

    def notify(self, context: Any) -> None:
        if self.name in self.hanging:
            self.hanging[self.name].wait(20)
            return
        if self.name in self.failing:
            raise self.failing[self.name]
        self.sent.append((self.name, self.text))

    @classmethod
    def clear(cls) -> None:
        for kept in (cls.sent, cls.failing, cls.hanging):
            kept.clear()

    @classmethod
    def messages(cls) -> list[str]:
        """The first line of each that was sent."""
        return [text.splitlines()[0] for _, text in cls.sent]


def configure(folder: Path, patch: pytest.MonkeyPatch, text: str) -> None:
    """Write ``text`` as notifications.toml into ``folder``, and let it be the platform folder."""
    Recorder.clear()
    file = folder / "notifications.toml"
    file.write_text(text)
    file.chmod(0o600)
    patch.setenv(DIRECTORY_VARIABLE, str(folder))


def note(
    event: Event, stream: str, about: str, message: object, run: tuple[str, str], **more: str
) -> Notification:
    """A notification that links to an Airflow at ``http://a``."""
    return notification(event, stream, about, message, run, base_url="http://a", **more)


def rule(name: str = "a", more: str = "") -> str:
    return f'[[notify]]\nnotifier = "{RECORDER}"\n{more}\n[notify.arguments]\nname = "{name}"\n'
