"""The sources that earlier loads verified: a load neither reads nor plans them again.

A verified document names the load, and the topic's end offsets when the source had been sent. It counts as
long as the stream's table, of the same incarnation, has published these offsets: a table whose catalog was
restored from a backup has not, until the stream published them again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from sluice.core.json_record import Document
from sluice.core.tables.continuity import covers, incarnation, newest_covered
from sluice.ledger.keys import verified_key, verified_of, verified_prefix

if TYPE_CHECKING:
    from sluice.clients.lake.catalog import Lake
    from sluice.ledger.documents import Ledger

# More sources are looked up with one listing of all, a thousand in a request.
FEW = 10


class VerifiedSources:
    """The verified documents of a table."""

    def __init__(self, ledger: Ledger, lake: Lake, table: str) -> None:
        self.ledger, self.lake, self.table = ledger, lake, table
        position = lake.position(table)
        self.ends = position.ends if position else {}
        self.topic_id = position.topic_id if position else None
        # A table from before topic ids were stored has no incarnation, and verifies everything again.
        self.incarnation = (
            incarnation(lake.table_uuid(table), position.topic_id, position.starts)
            if position and position.topic_id
            else None
        )

    @cached_property
    def reverted(self) -> frozenset[str]:
        """Ids of the sources whose rows a change took out, and none brought back. At most one GET."""
        from sluice.clients.lake.changes import removed_by

        if self.incarnation is None:
            return frozenset()
        return removed_by(self.ledger.client, self.lake.changes(self.table)).reverted_sources

    def held(self, source_ids: Collection[str]) -> set[str]:
        """Which of the sources the table has rows of, by the table alone: reads the manifests of all of it,
        and the files whose bounds do not tell."""
        from sluice.clients.lake import counting

        rows = counting.rows_by_source(self.lake.table(self.table), source_ids)
        return {source_id for source_id in source_ids if rows[source_id].values}

    def among(self, source_ids: Sequence[str]) -> tuple[set[str], Document]:
        """Which of the sources are verified, and what that rests on, for the plan.

        Usually one GET and a LIST per thousand verified sources, of FEW sources one LIST each.
        """
        keys: dict[int, str] = {}
        totals: dict[str, int] = {}
        requested = set(source_ids)
        for key in self._keys(source_ids):
            found = verified_of(key)
            if found is None:
                continue
            source_id, total, same_as = found
            # Its rows are those of the other source, which a change may have taken out since.
            if same_as in self.reverted:
                continue
            keys[total] = key
            if source_id in requested:
                totals[source_id] = min(total, totals.get(source_id, total))
        ends: dict[int, dict[int, int]] = {}

        def is_covered(total: int) -> bool:
            document = self.ledger.get(keys[total])
            ends[total] = _ends_of(document or {})
            return document is not None and covers(self.ends, ends[total])

        reached = newest_covered(totals.values(), is_covered)
        if reached is None:
            return set(), {"count": 0}
        verified = {source_id for source_id, total in totals.items() if total <= reached}
        rests_on = {
            "count": len(verified),
            "incarnation": self.incarnation,
            "end_offsets": _as_json(ends[reached]),
        }
        return verified, rests_on

    def _keys(self, source_ids: Sequence[str]) -> Iterable[str]:
        if self.incarnation is None:
            return ()
        if len(source_ids) > FEW:
            return self.ledger.keys(verified_prefix(self.incarnation))
        return chain.from_iterable(
            self.ledger.keys(verified_prefix(self.incarnation, source_id)) for source_id in source_ids
        )

    @staticmethod
    def both(one: Document, other: Document) -> Document:
        """What two answers of :meth:`among` rest on together."""
        if not (one["count"] and other["count"]):
            return one if one["count"] else other
        newer = max(one, other, key=lambda rests_on: sum(_ends_of(rests_on).values()))
        return {**newer, "count": one["count"] + other["count"]}

    def still(self, rests_on: Document) -> bool:
        """Whether what :meth:`among` returned is still so: no catalog was restored since."""
        if not rests_on.get("count"):
            return True
        return rests_on.get("incarnation") == self.incarnation and covers(self.ends, _ends_of(rests_on))

    def record(self, documents: Sequence[Document], ends: Mapping[int, int]) -> None:
        """Write a verified document for each (with ``source_id``, and ``same_as`` if its rows are another
        source's). ``ends``: of all partitions of the topic, read after the sources had been sent."""
        if self.incarnation is None:
            return
        from sluice.clients.s3.requests import at_once

        prefix, end_offsets = self.incarnation, _as_json(ends)

        def put(document: Document) -> None:
            total, same_as = sum(ends.values()), document.get("same_as", "")
            key = verified_key(prefix, document["source_id"], total, same_as)
            self.ledger.put(key, {**document, "end_offsets": end_offsets})

        at_once(documents, put)


class NewSources(list[Document]):
    """The selected sources that no load has verified. ``verified``: what :meth:`VerifiedSources.among` says
    of the others; ``reverted``: ids of those whose rows a change took out, which a load does not bring back;
    ``more``: further entries of the plan.
    """

    def __init__(
        self,
        sources: Iterable[Document],
        verified: Document,
        reverted: Sequence[str] = (),
        more: Document | None = None,
    ) -> None:
        super().__init__(sources)
        self.verified, self.reverted, self.more = verified, list(reverted), more or {}


def without_verified(sources: list[Document], verified: VerifiedSources | None) -> NewSources:
    """The sources that were never verified; all of them without ``verified`` (to verify them again)."""
    if verified is None:
        return NewSources(sources, {"count": 0})
    reverted = [source["source_id"] for source in sources if source["source_id"] in verified.reverted]
    left = [source for source in sources if source["source_id"] not in verified.reverted]
    known, rests_on = verified.among([source["source_id"] for source in left])
    return NewSources((source for source in left if source["source_id"] not in known), rests_on, reverted)


def _ends_of(document: Document) -> dict[int, int]:
    return {int(partition): end for partition, end in document.get("end_offsets", {}).items()}


def _as_json(ends: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): end for partition, end in sorted(ends.items())}
