"""What causes a failure, and its fix."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")


@dataclass(frozen=True)
class ErrorGuide:
    """In Markdown, on one line, with links as from a page of docs/. ``{stream}``: the stream's name."""

    cause: str
    fix: str


def plain(markdown: str) -> str:
    """As a message carries it: without markup, a link with its page behind it."""
    linked = _LINK.sub(lambda link: f"{link[1]} (docs/{link[2].removeprefix('docs/')})", markdown)
    return linked.replace("`", "")
