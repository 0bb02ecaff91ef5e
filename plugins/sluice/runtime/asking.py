"""Asking several systems for one look, of which some may not answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sluice.clients.errors import ClientError

T = TypeVar("T")


def ask(system: str, trouble: dict[str, str], question: Callable[[], T]) -> T | None:
    """The answer; None where there is none (``trouble`` says why then), or where the system did not answer an
    earlier question."""
    if system in trouble:
        return None
    try:
        return question()
    except ClientError as error:
        trouble[system] = str(error)
        return None
