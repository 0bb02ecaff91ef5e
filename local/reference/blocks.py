"""Generated blocks of a page, between markers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

COMMAND = "local/run python -m local.reference"
_END = "<!-- end -->"
_BLOCK = re.compile(rf"^<!-- ([a-z -]+): written by `{COMMAND}` -->\n.*?^{_END}$", re.M | re.S)
_STREAM = re.compile(r"\{stream\}(\w*)")


def block(name: str, text: str) -> str:
    return f"<!-- {name}: written by `{COMMAND}` -->\n\n{text}\n\n{_END}"


def fill(page: str, blocks: Mapping[str, str]) -> str:
    """The page with each of its blocks as given. Raises ValueError unless it has exactly these, each once."""
    found = _BLOCK.findall(page)
    if sorted(found) != sorted(blocks):
        raise ValueError(
            f"the page has the blocks {found}, and is to have {list(blocks)}. Fix: add where one belongs\n"
            + block("its name", "")
        )
    return _BLOCK.sub(lambda match: block(match[1], blocks[match[1]]), page)


def of_stream(text: str) -> str:
    """With ``{stream}`` as the pages write it."""
    return _STREAM.sub(r"`<stream>\1`", text)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """In Markdown. Raises ValueError for a cell that would be several, or several lines."""
    lines = []
    for row in (head, *rows):
        if len(row) != len(head) or any("|" in cell or "\n" in cell for cell in row):
            raise ValueError(f"no row of {', '.join(head)}: {row}")
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])
