"""What a person may order a stream's supervision to do, and what a question about it may be answered with."""

from __future__ import annotations

from enum import StrEnum


class Action(StrEnum):
    """The param ``action`` of a ``<stream>_stream`` DAG."""

    SUPERVISE = "supervise"
    RESTART = "restart"
    STOP = "stop"
    START = "start"


class Answer(StrEnum):
    """What restarts did not mend is for a person to decide."""

    RESTART = "Restart it"
    HOLD = "Keep it stopped"
    LOOK = "Look again"


class Step(StrEnum):
    """The task that does what a verdict, or an order, asks for."""

    RESTART = "restart"
    ASK = "ask"
    STOP = "stop"
    ALARM = "alarm"
    QUIET = "quiet"
