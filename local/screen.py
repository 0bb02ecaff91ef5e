"""Where tables are shown."""

from __future__ import annotations

from rich.console import Console


def screen() -> Console:
    """The terminal; where there is none, 120 columns, since rich would take 80 and cut the addresses."""
    console = Console()
    return console if console.is_terminal else Console(width=120)
