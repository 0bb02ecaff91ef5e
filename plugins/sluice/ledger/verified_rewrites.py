"""Which rewrites of the stream's tables were verified: a document of the ledger for each, by its id."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from sluice.core.json_record import Document
from sluice.core.tables.rewrites import Rewrites, Unverified, unverified
from sluice.ledger.keys import rewrite_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sluice.ledger.documents import Ledger


class VerifiedRewrites:
    """The verified rewrites of one stream, in its ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def confirm(self, rewrite: str, document: Document) -> None:
        """Write that the rewrite was verified, unless that is written."""
        self.ledger.put(rewrite_key(rewrite), document)

    def unverified(self, rewrites: Rewrites) -> Unverified:
        """Return a table's unverified rewrites. If there are none, that is recorded for the next call."""
        newest = rewrites.newest[-1] if rewrites.newest else ""
        is_up_to = cache(self._is_verified_up_to)
        found = unverified(rewrites, self.is_verified, is_up_to)
        if newest and not found and not is_up_to(newest):
            self.ledger.put(rewrite_key(newest, up_to=True), {"rewrite": newest, "count": rewrites.count})
        return found

    def snapshots(self, rewrites: Iterable[str]) -> set[int]:
        """The snapshots of those of the rewrites that were verified: one GET each."""
        documents = map(self.document, rewrites)
        # One that a person dealt with names none.
        return {number for one in documents if one for number in one.get("snapshot_ids", ())}

    def document(self, rewrite: str) -> Document | None:
        """The document of a verified rewrite: one GET."""
        return self.ledger.get(rewrite_key(rewrite))

    def is_verified(self, rewrite: str) -> bool:
        """One GET."""
        return self.document(rewrite) is not None

    def _is_verified_up_to(self, rewrite: str) -> bool:
        return self.ledger.get(rewrite_key(rewrite, up_to=True)) is not None
