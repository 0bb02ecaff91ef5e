"""Messages in one line."""

from __future__ import annotations

from collections.abc import Sequence

MAX_PROBLEMS = 3
MAX_CHARACTERS = 500


def summarize(problems: Sequence[str]) -> str:
    """The first MAX_PROBLEMS in one line, each of MAX_CHARACTERS at most, and how many more there are."""
    shown = [_shortened(" ".join(problem.split())) for problem in problems[:MAX_PROBLEMS]]
    more = len(problems) - len(shown)
    return "; ".join([*shown, *([f"and {more} more"] if more else [])])


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 1]}…"
