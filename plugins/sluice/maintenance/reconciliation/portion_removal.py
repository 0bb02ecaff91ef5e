"""Which portions of verifications are of no use any more.

Those of a verification that passed: the next one starts from the state that it recorded. Until then they
stay, and also after a crash between the two, or if a verification was given up: after a time without a new
one they are deleted, too. A concurrent verification that misses a portion reads its files.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluice.maintenance.reconciliation.portions import UsedPortions

# A verification that has recorded nothing for so long does not go on.
ABANDONED = timedelta(days=7)


def useless(
    written: Iterable[tuple[str, datetime]], used: UsedPortions, now: datetime, *, is_recorded: bool
) -> list[str]:
    """``written``: keys of portions, and when they were written; ``used``: by this verification;
    ``is_recorded``: whether its state is."""
    found = dict(written)
    newest = dict[str, datetime]()
    for key, at in found.items():
        prefix = _prefix(key)
        newest[prefix] = max(at, newest.get(prefix, at))
    useless = list[str]()
    for key, at in found.items():
        if (prefix := _prefix(key)) not in used.prefixes:
            is_useless = now - newest[prefix] > ABANDONED
        else:
            # Its files are not to be read any more, since the table moved.
            is_useless = is_recorded or (key not in used.keys and now - at > ABANDONED)
        if is_useless:
            useless.append(key)
    return useless


def _prefix(key: str) -> str:
    return key[: key.rindex("/") + 1]
