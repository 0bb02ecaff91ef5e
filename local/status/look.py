"""Looks at all streams and their parts at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from local.stack import Stack
from local.status import parts, streams
from local.status.asking import ask_all
from local.status.parts import SeenPart
from local.status.streams import Seen
from sluice.model.stream import StreamSpec

# For all questions together.
DEADLINE_SECONDS = 30.0


def look(stack: Stack, specs: Sequence[StreamSpec]) -> tuple[dict[str, Seen], dict[str, SeenPart]]:
    """Stream → what was seen of it, and program → what was seen of another part. Takes DEADLINE_SECONDS at
    most."""
    questions: dict[str, Any] = {}
    for spec in specs:
        questions |= streams.questions(stack, spec)
        for part in parts.others(spec):
            questions |= parts.questions(stack, spec, part)
    stack.context  # noqa: B018  made once, here: the questions are asked in threads
    answers = ask_all(questions, DEADLINE_SECONDS)
    return (
        {spec.name: streams.seen(answers, spec) for spec in specs},
        {part.program: parts.seen(answers, spec, part) for spec in specs for part in parts.others(spec)},
    )
