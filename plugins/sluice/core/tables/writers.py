"""Names of a table's writers: ``w<epoch>_<random>``, for branches, checkpoints and snapshots.

The epoch orders writers. The random part tells them apart: a catalog that was restored issues an epoch again,
while the process that had it may still be suspended.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable


def writer_name(epoch: int) -> str:
    """A new name with this epoch."""
    return f"w{epoch}_{secrets.token_hex(4)}"


def producer_name() -> str:
    """A new name for a branch of a producer in the quarantine; it has no epoch."""
    return f"producer_{secrets.token_hex(4)}"


def is_producer(name: str) -> bool:
    return name.startswith("producer_")


def epoch_of(name: str) -> int:
    """The epoch in a writer's name; 0 for any other name."""
    match = re.fullmatch(r"w(\d+)(_[0-9a-f]+)?", name)
    return int(match[1]) if match else 0


def next_epoch(published: int, names: Iterable[str], at_least: int = 1) -> int:
    """An epoch above the published one and those of all ``names``, and not below ``at_least``."""
    return max([published + 1, at_least, *(epoch_of(name) + 1 for name in names)])
