"""The user's notifications.toml in the platform folder."""

from __future__ import annotations

from pathlib import Path

from local.runtime.context import Context
from sluice.config import notifications, streams

NO_RECIPIENT = "# No person is told: SLUICE_NOTIFICATIONS is not set (docs/operating.md, Notifications).\n"


def files(context: Context) -> dict[Path, str]:
    """Also without rules, so that those of an earlier start end. Raises ConfigError."""
    given = context.notifications
    text = notifications.read(given, streams.names()) if given else NO_RECIPIENT
    return {context.home.platform / notifications.FILE: text}
