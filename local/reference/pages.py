"""Which page has which blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from local.reference import errors, health, metrics
from local.reference.blocks import fill

REPO = Path(__file__).resolve().parents[2]
Pages = Mapping[str, Callable[[], Mapping[str, str]]]
PAGES: Pages = {
    "docs/errors.md": errors.blocks,
    "docs/operating.md": health.blocks,
    "docs/reference.md": metrics.blocks,
}


def outdated(folder: Path, pages: Pages) -> dict[Path, str]:
    """Page that is not as it is to be -> its text."""
    texts = {folder / page: fill((folder / page).read_text(), blocks()) for page, blocks in pages.items()}
    return {page: text for page, text in texts.items() if page.read_text() != text}
