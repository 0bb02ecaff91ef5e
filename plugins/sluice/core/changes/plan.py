"""The plan of a change: which rows of a stream's table go, and which records come (again).

Made and shown before anything is done, pinned in the ledger, and read by the Spark job.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from sluice.core.offsets.ranges import OffsetRanges

# Offsets that one change may remove singly: its result names each.
MAX_RECORDS = 10_000


class Action(StrEnum):
    """What a change is asked for."""

    REPLAY = "replay"
    RETRY = "retry_quarantine"
    REVERT = "revert"
    REDO = "redo"
    REPLACE = "replace"
    REMOVE = "remove"


def change_id(run_id: str) -> str:
    """16 hex digits: the same for every attempt of a run."""
    return hashlib.sha256(run_id.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class ChangePlan:
    """``rows_out``: offsets of rows that go, of REMOVE also out of the quarantine; ``sources_out``: ids of
    sources all of whose rows go. ``rows_in``: offsets of records that are read from the topic, or from the
    quarantine if the topic has lost them, decoded and loaded. ``reverts``: ids of the sources that count as
    reverted afterwards; ``redoes``: ids of the changes that reverted what comes back. ``closes``: of
    ``sources_out``, those of which rows may still come: the stream publishes none of them. ``withheld``: also
    records that were sent to be withheld are published; without it only those of sources that have rows
    in the table. ``changes``: number of published changes that it was planned with; with more it is not made.
    """

    id: str
    action: Action
    topic: str
    rows_out: OffsetRanges = field(default_factory=OffsetRanges)
    sources_out: tuple[str, ...] = ()
    rows_in: OffsetRanges = field(default_factory=OffsetRanges)
    reverts: tuple[str, ...] = ()
    redoes: tuple[str, ...] = ()
    closes: tuple[str, ...] = ()
    withheld: bool = False
    changes: int = 0

    @property
    def quarantined_out(self) -> OffsetRanges:
        """Offsets of records that go out of the quarantine, too."""
        return self.rows_out if self.action is Action.REMOVE else OffsetRanges()

    def to_document(self) -> dict[str, Any]:
        return {
            "change_id": self.id,
            "action": self.action.value,
            "topic": self.topic,
            "rows_out": self.rows_out.to_json(),
            "sources_out": list(self.sources_out),
            "rows_in": self.rows_in.to_json(),
            "reverts": list(self.reverts),
            "redoes": list(self.redoes),
            "closes": list(self.closes),
            "withheld": self.withheld,
            "changes": self.changes,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> ChangePlan:
        return cls(
            document["change_id"],
            Action(document["action"]),
            document["topic"],
            OffsetRanges.from_json(document["rows_out"]),
            tuple(document["sources_out"]),
            OffsetRanges.from_json(document["rows_in"]),
            tuple(document["reverts"]),
            tuple(document["redoes"]),
            tuple(document["closes"]),
            document["withheld"],
            document["changes"],
        )


@dataclass(frozen=True)
class Reverted:
    """Ids of sources, and the offsets of their rows that went."""

    sources: tuple[str, ...]
    offsets: OffsetRanges


@dataclass(frozen=True)
class RemovedRecord:
    """A record that action remove took out of the table or the quarantine. ``source_id``, ``row`` (0-based):
    None of an external record and of an event."""

    partition: int
    offset: int
    source_id: str | None
    row: int | None


@dataclass(frozen=True)
class ChangeResult:
    """What a change did; all numbers are of rows. ``out``: offsets of the rows that went; ``published``: of
    the records that came; ``rejected``: of the records of the plan that are in quarantine. ``removed``:
    offsets that this change and earlier ones removed and none brought back; ``reverts``: id of a change ->
    what it reverted and none redid; ``records``: of the removed ones those that went singly. ``kept``: rows
    that were written again, unchanged. ``recovered``: of the records of the plan those that were read from
    the quarantine, since the topic had lost them."""

    id: str
    action: Action
    out: OffsetRanges
    rows_out: int
    published: OffsetRanges
    rejected: OffsetRanges
    removed: OffsetRanges
    kept: int
    files_removed: int
    files_added: int
    reverts: Mapping[str, Reverted] = field(default_factory=dict)
    records: Sequence[RemovedRecord] = ()
    recovered: OffsetRanges = field(default_factory=OffsetRanges)

    @classmethod
    def none(cls) -> ChangeResult:
        """Before the first change."""
        empty = OffsetRanges()
        return cls("", Action.REPLAY, empty, 0, empty, empty, empty, 0, 0, 0)

    @classmethod
    def at(cls, address: str, read: Callable[[str], Mapping[str, Any]]) -> ChangeResult:
        """The document that ``address`` names, of :class:`~sluice.core.changes.published.Changes`; an
        empty one if it is ""."""
        return cls.from_document(read(address)) if address else cls.none()

    @property
    def reverted_sources(self) -> frozenset[str]:
        return frozenset(source for one in self.reverts.values() for source in one.sources)

    @property
    def single_offsets(self) -> OffsetRanges:
        """The offsets of ``records``."""
        offsets: dict[int, list[int]] = {}
        for one in self.records:
            offsets.setdefault(one.partition, []).append(one.offset)
        return OffsetRanges.of_values(offsets)

    def rows_of(self, source_id: str) -> list[int]:
        """Row numbers of a source that went singly."""
        return self._rows.get(source_id, [])

    @cached_property
    def _rows(self) -> Mapping[str, list[int]]:
        rows: dict[str, list[int]] = {}
        for one in self.records:
            if one.source_id is not None and one.row is not None:
                rows.setdefault(one.source_id, []).append(one.row)
        return rows

    def rows_out_of(self, plan: ChangePlan) -> set[tuple[str, int]]:
        """(source id, row) of what went singly, and does not come by ``plan``: a copy of it must not."""
        return {
            (one.source_id, one.row)
            for one in self.records
            if one.source_id is not None
            and one.row is not None
            and not (plan.action is Action.REDO and one.offset in plan.rows_in[one.partition])
        }

    def reverted_sources_out_of(self, plan: ChangePlan) -> frozenset[str]:
        """Ids of the sources that stay reverted: a copy of their rows must not come by ``plan``."""
        redone = [one.sources for key, one in self.reverts.items() if key in plan.redoes]
        return self.reverted_sources - {source for sources in redone for source in sources}

    def after(self, plan: ChangePlan, before: ChangeResult) -> ChangeResult:
        """With what is removed after it. ``before``: the newest earlier change after which any was."""
        removed = before.removed.union(self.out).minus(plan.rows_in)
        own = {plan.id: Reverted(plan.reverts, self.out)} if plan.reverts else {}
        reverts = {key: one for key, one in {**before.reverts, **own}.items() if key not in plan.redoes}
        records = [one for one in (*before.records, *self.records) if one.offset in removed[one.partition]]
        return replace(self, removed=removed, reverts=reverts, records=records)

    def to_document(self) -> dict[str, Any]:
        return {
            "change_id": self.id,
            "action": self.action.value,
            "out": self.out.to_json(),
            "rows_out": self.rows_out,
            "published": self.published.to_json(),
            "rejected": self.rejected.to_json(),
            "removed": self.removed.to_json(),
            "kept": self.kept,
            "files_removed": self.files_removed,
            "files_added": self.files_added,
            "reverts": {
                key: {"sources": list(one.sources), "offsets": one.offsets.to_json()}
                for key, one in self.reverts.items()
            },
            "records": [[one.partition, one.offset, one.source_id, one.row] for one in self.records],
            "recovered": self.recovered.to_json(),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> ChangeResult:
        return cls(
            document["change_id"],
            Action(document["action"]),
            OffsetRanges.from_json(document["out"]),
            document["rows_out"],
            OffsetRanges.from_json(document["published"]),
            OffsetRanges.from_json(document["rejected"]),
            OffsetRanges.from_json(document["removed"]),
            document["kept"],
            document["files_removed"],
            document["files_added"],
            {
                key: Reverted(tuple(one["sources"]), OffsetRanges.from_json(one["offsets"]))
                for key, one in document["reverts"].items()
            },
            [RemovedRecord(*values) for values in document["records"]],
            OffsetRanges.from_json(document["recovered"]),
        )

    def message(self) -> str:
        recovered = f"{self.recovered.count} read from the quarantine, " if self.recovered else ""
        return (
            f"{self.rows_out} rows out, {self.published.count} in, {self.rejected.count} in quarantine, "
            f"{recovered}{self.kept} written again unchanged; {self.files_removed} files removed, "
            f"{self.files_added} added"
        )
