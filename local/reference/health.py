"""docs/operating.md: the health statuses, with what follows each and the way out."""

from __future__ import annotations

from collections.abc import Mapping

from local.reference.blocks import of_stream, table
from sluice.supervision.rules.guide import GUIDES, consequence
from sluice.supervision.rules.status import Health

HEAD = ("health", "meaning", "what follows", "way out")


def blocks() -> Mapping[str, str]:
    rows = [
        [_section(health), guide.meaning, consequence(health), of_stream(guide.way_out) or "–"]
        for health, guide in GUIDES.items()
    ]
    return {"health statuses": table(HEAD, rows)}


def _section(health: Health) -> str:
    return f"[{health}](#{health.replace(' ', '-')})"
