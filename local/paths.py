"""Where things are: the repository and the cache. Standard library only (the bootstrap imports it)."""

from __future__ import annotations

import os
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent


def cache() -> Path:
    """The folder of everything fetched and built: `SLUICE_CACHE`, else `sluice` in the user's cache."""
    given = os.environ.get("SLUICE_CACHE")
    if given:
        return Path(given).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().resolve() / "sluice"


def default_home() -> Path:
    """The stack's home: `SLUICE_HOME`, else `build/stack` in the repository."""
    given = os.environ.get("SLUICE_HOME")
    return Path(given).expanduser().resolve() if given else REPO / "build" / "stack"
