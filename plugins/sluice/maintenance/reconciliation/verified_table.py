"""What a run verified of a stream's two tables, from which the next run starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timedelta

from sluice.core.json_record import Document
from sluice.core.offsets.offset_set import OffsetSet
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.offsets.rejection import MIN_MALFORMED, Share
from sluice.core.tables.continuity import covers

# Malformed records of runs that have too few by themselves are counted together for so long.
ADD_UP = timedelta(days=1)


@dataclass(frozen=True)
class Base:
    """What malformed records are counted from, ``at`` this time: end offsets, and number until then, without
    the ``unplanned``."""

    at: datetime
    ends: dict[int, int]
    malformed: int
    unplanned: int = 0

    def to_json(self) -> Document:
        ends = {str(partition): end for partition, end in self.ends.items()}
        numbers = {"malformed": self.malformed, "unplanned": self.unplanned}
        return {"at": self.at.isoformat(), "ends": ends, **numbers}

    @classmethod
    def from_json(cls, document: Document) -> Base:
        ends = _offsets(document["ends"])
        at = datetime.fromisoformat(document["at"])
        return cls(at, ends, document["malformed"], document["unplanned"])


@dataclass(frozen=True)
class WithheldPlan:
    """How a source was planned that is withheld. ``at``: when, ISO 8601; ``name``: of its object's version,
    and of the load; ``older``: ids of the sources that are earlier contents of the object."""

    at: str
    name: str
    older: tuple[str, ...] = ()


@dataclass(frozen=True)
class OnPurpose:
    """``unplanned``: number of records so far that say that they are withheld, or copies, and whose sources
    no load planned so; ``withheld``: source id -> number of its records that are withheld now; ``plans``: of
    these sources, but those that an earlier version recorded."""

    unplanned: int = 0
    withheld: Mapping[str, int] = field(default_factory=dict)
    plans: Mapping[str, WithheldPlan] = field(default_factory=dict)

    def to_json(self) -> Document:
        """Without the plans, since earlier versions read no more than this."""
        return {"unplanned": self.unplanned, "withheld": dict(self.withheld)}

    def plans_to_json(self) -> Document:
        return {source: asdict(plan) for source, plan in self.plans.items()}

    @classmethod
    def from_json(cls, document: Document, plans: Document) -> OnPurpose:
        found = {
            source: WithheldPlan(plan["at"], plan["name"], tuple(plan["older"]))
            for source, plan in plans.items()
        }
        return cls(document["unplanned"], document["withheld"], found)


@dataclass(frozen=True)
class Verified:
    """The state of a table and its quarantine that a run verified."""

    table: str
    """Its name, as `raw.nyc_taxi`."""
    table_uuid: str
    """Iceberg's: another one is another table."""
    snapshot_id: int
    """The newest of ``main``."""
    sequence_number: int
    """Iceberg's, of that snapshot."""
    committed_at: int
    """That snapshot's time, in ms since 1970."""
    rewrites: int
    """Number of times that the table's files were rewritten until then."""
    manifest_list: str
    """Address, of that snapshot: the next run reads only what differs from it."""
    quarantine_list: str | None
    """The quarantine's; None if it has no snapshot."""
    starts: dict[int, int] | None
    """Partition -> its first published offset, a missing one is 0; None in the document of a version without
    it."""
    ends: dict[int, int]
    """Partition -> the offset up to which everything is published."""
    present: OffsetSet
    """Offsets in the table."""
    quarantined: OffsetSet
    """Offsets in the quarantine that the consumer rejected."""
    files: int = 0
    """Number of data files that came or went since the run before."""
    read: int = 0
    """Number of data files that were read, the quarantine's too."""
    manifests: int = 0
    """Number of manifests that were read."""
    malformed: int = 0
    """Number of records rejected so far that do not say that they are there on purpose."""
    on_purpose: OnPurpose = field(default_factory=OnPurpose)
    """The unplanned ones of these records are malformed too."""
    without_record: OffsetSet = field(default_factory=OffsetSet)
    """Offsets in neither table, which the consumer recorded as without a record."""
    base: Base | None = None
    """State behind which no run has judged malformed records yet; None: the run before."""
    quarantine_snapshot_id: int | None = None
    """The newest of the quarantine's ``main``; None without one, and in the document of a version without
    it."""
    quarantine_sequence_number: int = 0
    """Iceberg's, of that snapshot."""

    @property
    def published(self) -> OffsetSet:
        """The offsets that counted as published; without ``starts`` those that are accounted for."""
        if self.starts is not None:
            return OffsetSet.of(OffsetRanges.from_ends(self.starts, self.ends))
        return self.present.union(self.quarantined).union(self.without_record)

    @property
    def unplanned(self) -> int:
        return self.on_purpose.unplanned

    @property
    def count(self) -> int:
        return self.present.count + self.quarantined.count

    def quarantined_since(self, earlier: Verified | Base | None) -> int:
        return _count_behind(self.quarantined, earlier)

    def rejected_since(self, earlier: Verified | Base | None) -> Share:
        """The malformed records that are in quarantine, of those that were published since ``earlier``."""
        before = (earlier.malformed, earlier.unplanned) if earlier else (0, 0)
        # Each by itself: a run that verifies all counts the unplanned ones that are still there.
        malformed = max(self.malformed - before[0], 0) + max(self.unplanned - before[1], 0)
        # A change may have published some of them.
        malformed = min(malformed, self.quarantined_since(earlier))
        return Share.beside(_count_behind(self.present, earlier), malformed)

    def counted(self, earlier: Verified | None, now: datetime) -> Verified:
        """With the base of the next run: the one of ``earlier``, until enough were malformed since then to be
        judged, or a day has passed. Without any since then, later records begin at this state."""
        here = Base(now, self.ends, self.malformed, self.unplanned)
        base = (earlier.base if earlier else None) or Base(now, {}, 0)
        malformed = self.rejected_since(base).malformed
        is_kept = 0 < malformed < MIN_MALFORMED and now - base.at < ADD_UP and covers(self.ends, base.ends)
        return replace(self, base=base if is_kept else here)

    def to_document(self) -> Document:
        # By name: a conversion of all fields would copy every range.
        others = (field.name for field in fields(self) if field.name not in (*_RANGES, "base", "on_purpose"))
        values = {name: getattr(self, name) for name in others} | {"on_purpose": self.on_purpose.to_json()}
        values["withheld_plans"] = self.on_purpose.plans_to_json()
        ends = {str(partition): end for partition, end in self.ends.items()}
        starts = {str(partition): start for partition, start in (self.starts or {}).items()}
        places = {"starts": starts if self.starts is not None else None, "ends": ends}
        ranges = {name: getattr(self, name).to_json() for name in _RANGES}
        return {**values, **places, **ranges, "base": self.base and self.base.to_json()}

    @classmethod
    def from_document(cls, document: Document) -> Verified:
        return cls(
            document["table"],
            document["table_uuid"],
            document["snapshot_id"],
            document["sequence_number"],
            document["committed_at"],
            document["rewrites"],
            document["manifest_list"],
            document["quarantine_list"],
            _offsets(document["starts"]) if document.get("starts") is not None else None,
            _offsets(document["ends"]),
            OffsetSet.from_json(document["present"]),
            OffsetSet.from_json(document["quarantined"]),
            malformed=document["malformed"],
            on_purpose=OnPurpose.from_json(document["on_purpose"], document.get("withheld_plans", {})),
            without_record=OffsetSet.from_json(document.get("without_record", "{}")),
            base=Base.from_json(document["base"]) if document.get("base") else None,
            quarantine_snapshot_id=document.get("quarantine_snapshot_id"),
            quarantine_sequence_number=document.get("quarantine_sequence_number", 0),
        )


_RANGES = ("present", "quarantined", "without_record")


def _offsets(document: Document) -> dict[int, int]:
    return {int(partition): offset for partition, offset in document.items()}


def _count_behind(offsets: OffsetSet, earlier: Verified | Base | None) -> int:
    """Number of those at or behind the ends of ``earlier``."""
    ends = earlier.ends if earlier else {}
    return sum(
        len(bitmap) - bitmap.count_within(0, ends.get(partition, 0))
        for partition, bitmap in offsets.partitions.items()
    )
