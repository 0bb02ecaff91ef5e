"""Asks about all components of all streams at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from local.stack.stack import Stack
from local.status.asking import ask_all
from local.status.streams import Seen, questions, seen
from sluice.model.spec.stream import StreamSpec

# For all questions together.
DEADLINE_SECONDS = 30.0


def look(stack: Stack, specs: Sequence[StreamSpec]) -> dict[str, Seen]:
    """Program → what is known of that component. Takes DEADLINE_SECONDS at most."""
    components = [(spec, part) for spec in specs for part in spec.parts.values()]
    asked: dict[str, Any] = {}
    for spec, part in components:
        asked |= questions(stack, spec, part)
    stack.context  # noqa: B018  made once, here: the questions are asked in threads
    answers = ask_all(asked, DEADLINE_SECONDS)
    return {part.program: seen(answers, spec, part) for spec, part in components}
