"""What a person may request of a stream's supervision, and how a decision may be answered."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

# The param ``component`` of a run that means every component.
ALL = "all"


class Action(StrEnum):
    """The param ``action`` of a ``<stream>_stream`` DAG."""

    SUPERVISE = "supervise"
    RESTART = "restart"
    STOP = "stop"
    START = "start"


class Answer(StrEnum):
    """A person decides about a component that keeps ending or stalling."""

    RESTART = "Restart it"
    HOLD = "Keep it stopped"
    LOOK = "Look again"


def action_for(params: Mapping[str, Any], component: str) -> Action:
    """What a run with these params does with ``component``; requests may be for another one."""
    is_meant = params.get("component", ALL) in (ALL, component)
    return Action(params.get("action", Action.SUPERVISE)) if is_meant else Action.SUPERVISE
