"""Where a row is and where it came from, and where the rows of a source are."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.batches import Batch
from sluice.core.tables.without_record import WithoutRecord

TABLE, QUARANTINE = "table", "quarantine"
# Most rows that are named per reason of the quarantine.
MAX_NAMED = 10


class Absence(StrEnum):
    """Why a row is in neither."""

    NO_PARTITION = "no such partition"
    NO_ROW = "no such row"
    BEYOND_END = "beyond the topic's end"
    BEFORE_START = "before the stream's first offset"
    NOT_SENT = "not sent yet"
    NOT_PUBLISHED = "not published yet"
    DELETED = "deleted before it was published"
    REMOVED = "removed by a change"
    WITHOUT_RECORD = "no record to publish"
    MISSING = "missing"


@dataclass(frozen=True)
class Absent:
    why: Absence
    detail: str

    def __str__(self) -> str:
        return f"{self.why}: {self.detail}"


@dataclass(frozen=True)
class Source:
    """What rows came from: ``identity`` is the object and its version, a generator's parameters or a feed;
    without ``source_id``, records that no load has sent. ``planned_by``, ``sent_by``: run ids of loads."""

    identity: Mapping[str, Any]
    source_id: str = ""
    planned_by: str = ""
    sent_by: str = ""

    def fields(self) -> list[tuple[str, str]]:
        found = [("source id", self.source_id)] if self.source_id else []
        for name, value in self.identity.items():
            found.append((name.replace("_", " "), value if isinstance(value, str) else json.dumps(value)))
        if self.planned_by:
            found.append(("load", self.planned_by))
        if self.source_id and self.sent_by != self.planned_by:
            found.append(("sent by load", self.sent_by or "not completely sent yet"))
        return found


@dataclass(frozen=True)
class Place:
    """A copy of a row, ``where`` (TABLE or QUARANTINE), in ``file``, which ``snapshot_id`` added.

    ``partition`` and ``offset`` are None for a row that was rejected before the topic. ``reason``: of a
    quarantined row, else empty. ``batch``: that published it, None if that is not recorded. ``record``: what
    the record has beside its value, of a topic that others fill: ``time``, and ``key`` and ``headers`` if
    they are kept, as the columns have them.
    """

    where: str
    file: str
    snapshot_id: int | None
    partition: int | None
    offset: int | None
    reason: str = ""
    batch: Batch | None = None
    record: Mapping[str, Any] = field(default_factory=dict)

    def fields(self) -> list[tuple[str, str]]:
        found = [("in", f"quarantine: {self.reason}" if self.where == QUARANTINE else self.where)]
        if self.offset is not None:
            found += [("partition", str(self.partition)), ("offset", str(self.offset))]
            found += [(f"record's {name}", _shown(value)) for name, value in self.record.items()]
            found.append(("batch", _batch(self.batch)))
        return [*found, ("data file", self.file), ("snapshot", str(self.snapshot_id))]

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "batch": self.batch.to_json() if self.batch else None}


@dataclass(frozen=True)
class RowTrace:
    """One row of ``topic``, in all its ``places``: ``row`` is its 0-based number in the source, ``line`` the
    1-based line of an object. ``source``: None if no record is at the offset. ``absent`` if there is no
    place."""

    topic: str
    source: Source | None
    row: int | None
    line: int | None
    places: Sequence[Place]
    absent: Absent | None = None

    def fields(self) -> list[tuple[str, str]]:
        """Name and text of each, in their order."""
        found = [("topic", self.topic), *(self.source.fields() if self.source else [])]
        if self.row is not None:
            found.append(("row (from 0)", str(self.row)))
        if self.line is not None:
            found.append(("line (from 1)", str(self.line)))
        for place in self.places:
            found += place.fields()
        return [*found, ("in", f"neither table nor quarantine: {self.absent}")] if self.absent else found

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "source": vars(self.source) if self.source else None,
            "row": self.row,
            "line": self.line,
            "places": [place.to_json() for place in self.places],
            "absent": vars(self.absent) if self.absent else None,
        }


@dataclass(frozen=True)
class Rejected:
    """A quarantined row of a source, with the quarantine's ``reason``: its 0-based ``row``; ``line`` (from 1)
    if the producer rejected it, else ``partition`` and ``offset`` of its record."""

    reason: str
    row: int | None
    line: int | None
    partition: int | None
    offset: int | None


@dataclass(frozen=True)
class SourceTrace:
    """The rows of one source: ``files`` -> their offsets in it, and those in the quarantine."""

    topic: str
    source: Source
    files: Mapping[str, OffsetRanges]
    rejected: Sequence[Rejected]

    @property
    def offsets(self) -> OffsetRanges:
        found = OffsetRanges()
        for offsets in self.files.values():
            found = found.union(offsets)
        return found

    @property
    def rows(self) -> int:
        # A row that is there twice counts twice.
        return sum(offsets.count for offsets in self.files.values())

    def fields(self) -> list[tuple[str, str]]:
        """As of :class:`RowTrace`."""
        found = [("topic", self.topic), *self.source.fields()]
        found += [("rows in the table", str(self.rows)), ("offsets", str(self.offsets))]
        found += [
            ("data file", f"{file} ({offsets.count} rows)") for file, offsets in sorted(self.files.items())
        ]
        found.append(("rows in the quarantine", str(len(self.rejected))))
        reasons = Counter(row.reason for row in self.rejected)
        for reason, count in reasons.most_common():
            rows = sorted(row.row for row in self.rejected if row.reason == reason and row.row is not None)
            found.append((f"quarantined {count}", f"{reason}{_named(rows)}"))
        return found

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "source": vars(self.source),
            "rows": self.rows,
            "offsets": str(self.offsets),
            "files": {file: str(offsets) for file, offsets in sorted(self.files.items())},
            "rejected": [vars(row) for row in self.rejected],
        }


def _named(rows: Sequence[int]) -> str:
    if not rows:
        return ""
    more = f", and {len(rows) - MAX_NAMED} more" if len(rows) > MAX_NAMED else ""
    return f" (rows {', '.join(map(str, rows[:MAX_NAMED]))}{more})"


def _batch(batch: Batch | None) -> str:
    if batch is None:
        return "not recorded, or its record was deleted after history_days"
    published = batch.published.isoformat(timespec="milliseconds")
    return f"{batch.batch_id} of {batch.writer}, published {published}, {batch.ranges}"


def absent_offset(
    partition: int,
    offset: int,
    topic: Mapping[int, tuple[int, int]],
    starts: Mapping[int, int],
    ends: Mapping[int, int],
    removed: OffsetRanges,
    without: Callable[[OffsetRanges], WithoutRecord],
) -> Absent:
    """Why an offset is in neither. ``topic``: partition -> first offset and the one after the last, as Kafka
    keeps them; ``starts`` and ``ends``: of the published ones; ``removed``: of these, by changes;
    ``without``: what their batches recorded of offsets, asked only of one that should be there."""
    if partition not in topic:
        return Absent(Absence.NO_PARTITION, f"the topic has partitions {_list(topic)}")
    first, after = topic[partition]
    start, end = starts.get(partition, 0), ends.get(partition, 0)
    if offset in removed[partition]:
        return Absent(Absence.REMOVED, "a change took it out, and none brought it back")
    if start <= offset < end:
        recorded = without(OffsetRanges.of({partition: [(offset, offset + 1)]}))
        if recorded.count:
            return Absent(Absence.WITHOUT_RECORD, f"its batch recorded it: {recorded.message()}")
        return Absent(Absence.MISSING, f"partition {partition} is published up to {end}, and without it")
    if offset >= after:
        return Absent(Absence.BEYOND_END, f"partition {partition} ends at {after}")
    if offset < start:
        return Absent(Absence.BEFORE_START, f"the stream begins at {start} in partition {partition}")
    if offset < first:
        return Absent(Absence.DELETED, f"Kafka keeps partition {partition} from {first}, published is {end}")
    return Absent(Absence.NOT_PUBLISHED, f"partition {partition} is published up to {end}")


def absent_row(
    row: int, sent: OffsetRanges | None, ends: Mapping[int, int], *, is_removed: bool = False
) -> Absent:
    """Why a row of a source is in neither. ``sent``: the offsets between which all its rows were sent, None
    before that; ``is_removed``: a change took the row out, or all of the source."""
    if is_removed:
        return Absent(Absence.REMOVED, "a change took it out, or its source, and none brought it back")
    if sent is None:
        return Absent(Absence.NOT_SENT, "its load has not sent all rows of the source")
    rest = sent.minus(OffsetRanges.from_ends({}, ends))
    if rest:
        return Absent(Absence.NOT_PUBLISHED, f"it may be in {rest}, which the load sent")
    return Absent(Absence.MISSING, f"the source's offsets {sent} are published, and without row {row}")


def _list(partitions: Mapping[int, Any]) -> str:
    return ", ".join(map(str, sorted(partitions))) or "(none)"


def _shown(value: Any) -> str:
    """A column's value for a person: bytes as the text that they are, else in hex; headers as name=value."""
    match value:
        case None | []:
            return "(none)"
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return f"0x{value.hex()}"
        case list():
            return ", ".join(f"{one['key']}={_shown(one['value'])}" for one in value)
        case datetime():
            return value.isoformat(timespec="milliseconds")
    return str(value)
