"""The question whether a stream is to be restarted once more, as Markdown.

Sentences, names and log lines come from elsewhere and may hold anything. All of them stand in indented code
blocks: unlike a fence, nothing within a line can end one, and nothing in it is markup, a link or an image.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from sluice.clients.keys import Document
from sluice.hooks.text import table
from sluice.model.health import Diagnosis
from sluice.model.orders import Answer
from sluice.model.stream import StreamSpec

MOST_CHARACTERS = 400
MOST_LINES = 20
WIDTH = 110
CHOICES = f"""\
- **{Answer.RESTART}**: start it anew, and count its restarts from there.
- **{Answer.HOLD}**: hold it, until the DAG `{{stream}}_stream` is triggered with action start or restart.
- **{Answer.LOOK}**: do nothing now; the next run judges it anew. So it is when nobody answers within an hour.
"""


def subject(stream: str, restarts: int) -> str:
    return f"Stream {stream} was restarted {restarts} times and does not keep going: restart it again?"


def body(spec: StreamSpec, diagnosis: Diagnosis, restarts: Sequence[Document], tail: Sequence[str]) -> str:
    """``restarts``: events of the window, oldest first; ``tail``: the last lines of the consumer's log."""
    facts = [
        ["verdict", diagnosis.verdict.value],
        ["records that wait", "unknown" if diagnosis.lag is None else f"{diagnosis.lag:,}"],
        ["records/s published", _rate(diagnosis.rate)],
        ["records/s arriving", _rate(diagnosis.arrivals)],
        ["owner", "none" if diagnosis.token is None else f"token {diagnosis.token}"],
    ]
    rows = [
        [event["at"][:19], *(_line(event.get(key, "")) for key in ("who", "verdict", "sentence"))]
        for event in restarts
    ]
    minutes = spec.supervision.restart_window_seconds // 60
    return "\n\n".join(
        [
            "What was seen:",
            verbatim(
                [
                    *textwrap.wrap(_line(diagnosis.sentence), WIDTH),
                    *table(["what", "value"], facts).split("\n"),
                ]
            ),
            f"Its restarts of the last {minutes} minutes:",
            verbatim(table(["when", "by", "verdict", "why"], rows).split("\n")[1:]),
            "The end of its log:",
            verbatim(list(tail[-MOST_LINES:]) or ["it wrote nothing"]),
            CHOICES.format(stream=spec.name),
        ]
    )


def verbatim(lines: Iterable[str]) -> str:
    """The lines as an indented code block, each made printable and cut to its length."""
    return "\n".join(f"    {_line(line)}" for line in lines)


def _line(value: object) -> str:
    text = "".join(character if character.isprintable() else " " for character in str(value))
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"


def _rate(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1f}"
