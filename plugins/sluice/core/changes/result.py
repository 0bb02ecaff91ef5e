"""The result of a change: what went and came, and what is removed after it.

Written beside the table by the Spark job, and named by the change's snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from sluice.core.changes.filled import FilledFields
from sluice.core.changes.plan import Action, ChangePlan
from sluice.core.offsets.ranges import OffsetRanges


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
    """What a change did."""

    id: str
    """The plan's; empty before the first change."""
    action: Action
    """The plan's; REPLAY before the first change."""
    out: OffsetRanges
    """Offsets of the rows that went."""
    rows_out: int
    """Number of these rows."""
    published: OffsetRanges
    """Offsets of the records that came."""
    rejected: OffsetRanges
    """Offsets of the plan's records that are in quarantine."""
    removed: OffsetRanges
    """Offsets that this change and earlier ones removed and none brought back."""
    kept: int
    """Number of rows that were written again, unchanged."""
    files_removed: int
    """Number of data files of the table that had rows that went."""
    files_added: int
    """Number of data files in their place, with the rows that were kept and those that came."""
    reverts: Mapping[str, Reverted] = field(default_factory=dict)
    """Id of a change -> what it reverted and none redid."""
    records: Sequence[RemovedRecord] = ()
    """Those of ``removed`` that went singly."""
    recovered: OffsetRanges = field(default_factory=OffsetRanges)
    """Offsets of records read from the quarantine, since the topic had lost them."""
    filled: FilledFields | None = None
    """What action fill_columns did, whose ``out`` and ``published`` are the plan's rows in the files that it
    exchanged; None of another action."""

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
            **({"filled": self.filled.to_document()} if self.filled else {}),
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
            FilledFields.from_document(document["filled"]) if "filled" in document else None,
        )

    def message(self) -> str:
        if self.filled:
            return (
                f"{self.filled.message()}; {self.files_removed} files removed, {self.files_added} added, "
                f"with {self.rows_out + self.kept} rows"
            )
        recovered = f"{self.recovered.count} read from the quarantine, " if self.recovered else ""
        return (
            f"{self.rows_out} rows out, {self.published.count} in, {self.rejected.count} in quarantine, "
            f"{recovered}{self.kept} written again unchanged; {self.files_removed} files removed, "
            f"{self.files_added} added"
        )
