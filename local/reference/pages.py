"""Which page has which blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from local.reference import errors, forms, health, metrics, settings
from local.reference.blocks import fill

REPO = Path(__file__).resolve().parents[2]
Pages = Mapping[str, Sequence[Callable[[], Mapping[str, str]]]]
PAGES: Pages = {
    "docs/adding-a-stream.md": [settings.of_streams],
    "docs/dags.md": [forms.blocks],
    "docs/errors.md": [errors.blocks],
    "docs/operating.md": [health.blocks, settings.of_notifications],
    "docs/reference.md": [metrics.blocks],
    "docs/your-own-systems.md": [settings.of_platforms],
}


def outdated(folder: Path, pages: Pages) -> dict[Path, str]:
    """Page that is not as it is to be -> its text."""
    found = {}
    for page, sources in pages.items():
        blocks = {name: text for source in sources for name, text in source().items()}
        before = (folder / page).read_text()
        if (after := fill(before, blocks)) != before:
            found[folder / page] = after
    return found
