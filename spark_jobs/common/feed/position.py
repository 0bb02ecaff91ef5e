"""From where a feed is resumed: the position that its producer saved, compared with the topic. Pure.

A position is never guessed. Only a feed that never ran begins with new events; if it ran and its position is
not certain, the producer ends, and a person decides (``[feed.resume]``).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from hashlib import sha256
from typing import Any

from sluice.config.sections.feed import LATEST, SAVED, Feed
from sluice.core.error_codes import ErrorCode
from spark_jobs.common.spark.failures import Unrecoverable

# (partition, offset) of a record.
Place = tuple[int, int]
# Newest records whose place is remembered, per event that may be in flight: those that may be acknowledged
# beyond the low-water mark, as many before it for a rewound position, and as many again because
# acknowledgements come out of order.
RECENT_PLACES = 3
# Newest events whose ids are saved, per event that may be in flight: without the first of RECENT_PLACES,
# because every event up to the last of them is acknowledged.
RECENT_IDS = 2


class PositionUnknown(Unrecoverable):
    """Where the feed was is not certain: a restart finds the same, a person must decide."""

    code = ErrorCode.POSITION_UNKNOWN


@dataclass(frozen=True)
class StreamPosition:
    """The feed headers of one record, at its ``place``. ``sequence``: its number among the feed's, from 1;
    ``event_id``: unique per event; ``resume``: the position from which to resume, and ``feed``: the feed's
    name, both None if the record does not say."""

    sequence: int
    event_id: str
    resume: str | None
    feed: str | None
    place: Place = (-1, -1)


@dataclass(frozen=True)
class Tail:
    """The end of a topic. ``bounds``: partition -> (first offset kept, next offset). ``records``: the feed's
    own among those that were read, in the order of their sequence. ``hidden``: partitions in which records
    of others are among those that were read, so the feed's may be before them."""

    topic_id: str
    bounds: Mapping[int, tuple[int, int]]
    records: Sequence[StreamPosition] = ()
    hidden: Sequence[int] = ()

    @property
    def ends(self) -> dict[int, int]:
        return {partition: end for partition, (_, end) in self.bounds.items()}

    @property
    def newest(self) -> StreamPosition | None:
        return self.records[-1] if self.records else None

    @property
    def is_new(self) -> bool:
        """Nothing was ever written to the topic."""
        return not any(self.ends.values())


@dataclass(frozen=True)
class SavedPosition:
    """What a producer knew while it held the lock, never ahead of what the topic has acknowledged."""

    topic_id: str
    """Kafka's: a topic with another one was recreated."""
    feed: str
    """Name of the feed that was read."""
    position: str | None
    """Up to it every event is acknowledged; None if the feed gave none."""
    acknowledged: int
    """The highest sequence that Kafka acknowledged; some below it may be in flight."""
    next_sequence: int
    """The next record's."""
    first_sequence: int
    """The first since the producer began with new events."""
    ends: dict[int, int]
    """Partition -> offset behind its last acknowledged record."""
    tail_starts: dict[int, int]
    """Partition -> offset from which on records are needed to recognise events that come again."""
    read_at: float
    """When the feed was last heard, in seconds since 1970."""
    ids_sequence: int = 0
    """The sequence up to which ``ids`` are saved."""
    decision: dict[str, Any] | None = None
    """A person's last, with the finding that it is for."""
    ids: list[str] = field(default_factory=list)
    """Ids of the last events, for records that retention has deleted."""

    def dump(self) -> str:
        """Without ``ids``, which are many and change seldom."""
        document = asdict(self)
        del document["ids"]
        return json.dumps(document, sort_keys=True)

    @classmethod
    def parse(cls, text: str, ids: str) -> SavedPosition:
        document = json.loads(text) | {"ids": json.loads(ids)}
        for name in ("ends", "tail_starts"):
            document[name] = {int(partition): offset for partition, offset in document[name].items()}
        return cls(**{found.name: document[found.name] for found in fields(cls)})


@dataclass(frozen=True)
class Start:
    """Where a producer begins. ``position``: None to begin with new events. ``topic_id``, ``ends``: the
    topic's now. ``ids``: of the last events, oldest first; ``places``: of their records, as far as they were
    read. ``next_sequence``, ``first_sequence``, ``read_at``, ``decision``: as of SavedPosition."""

    topic_id: str
    ends: dict[int, int]
    position: str | None = None
    next_sequence: int = 1
    first_sequence: int = 1
    ids: list[str] = field(default_factory=list, compare=False)
    places: list[Place] = field(default_factory=list)
    read_at: float = 0.0
    decision: dict[str, Any] | None = None


def read_starts(
    saved: SavedPosition | None, topic_id: str, bounds: Mapping[int, tuple[int, int]], depth: int, limit: int
) -> tuple[dict[int, int], bool]:
    """Offset from which to read each partition, and whether every record of the feed that matters is behind
    it: from the saved offsets, unless that is more than ``limit`` records; else the last ``depth``."""
    if saved is not None and saved.topic_id == topic_id:
        starts = {
            partition: min(max(begin, saved.tail_starts.get(partition, 0)), end)
            for partition, (begin, end) in bounds.items()
        }
        if sum(bounds[partition][1] - start for partition, start in starts.items()) <= limit:
            return starts, True
    return {partition: max(begin, end - depth) for partition, (begin, end) in bounds.items()}, False


def resume(tail: Tail, saved: SavedPosition | None, name: str, feed: Feed, now: float | None = None) -> Start:
    """Where to begin with the feed ``name``. Raises PositionUnknown."""
    now = time.time() if now is None else now
    reason = _doubt(tail, saved, name, feed)
    position = None if reason else _position(tail, saved)
    if not reason and position is None and feed.has_positions and _has_written(tail, saved):
        reason = "the feed gave no position with the events that were sent"
    read_at = now if saved is None else saved.read_at
    if not reason and position is not None:
        reason = gap(feed, read_at, now)
    start = _start(tail, saved)
    if not reason:
        return replace(start, position=position, read_at=read_at)
    number = finding(tail.topic_id, saved, name)
    if feed.resume is None or feed.resume.finding != number:
        raise unknown(reason, saved, tail.topic_id, name)
    chosen = feed.resume.position
    if chosen == SAVED and (saved is None or saved.position is None):
        raise unknown(f"{reason}; position is {SAVED!r} and none is", saved, tail.topic_id, name)
    if chosen == SAVED and saved is not None:
        chosen = saved.position or LATEST
    decision = {"finding": number, "reason": reason, "position": feed.resume.position, "at": now}
    begins = chosen == LATEST
    return replace(
        start,
        position=None if begins else chosen,
        first_sequence=start.next_sequence if begins else start.first_sequence,
        read_at=now,
        decision=decision,
    )


def unknown(reason: str, saved: SavedPosition | None, topic_id: str, name: str) -> PositionUnknown:
    """The error, with what was found and the ways on."""
    known = "no position is saved" if saved is None else f"saved position: {saved.position}"
    fix = f'[feed.resume] in stream.toml or the override file, finding = "{finding(topic_id, saved, name)}"'
    kept = "" if saved is None or saved.position is None else f' "{SAVED}" (the saved one),'
    return PositionUnknown(
        f"position of feed {name} is unknown: {reason}; {known}. Fix: write {fix} and position ="
        f'{kept} "{LATEST}" (new events only: those in between are missing) or a position of the feed; then '
        "start the stream"
    )


def finding(topic_id: str, saved: SavedPosition | None, name: str) -> str:
    """Names what was found, so that a decision holds for it alone: the next start saves another position."""
    text = json.dumps([topic_id, name, saved.dump() if saved else None])
    return sha256(text.encode()).hexdigest()[:8]


def gap(feed: Feed, read_at: float, now: float) -> str:
    """Why events are missing behind a position: the feed no longer keeps them; "" if it does."""
    hours = (now - read_at) / 3600
    if not feed.keeps_hours or hours <= feed.keeps_hours:
        return ""
    return f"the feed was last heard {hours:.1f} hours ago, and keeps_hours is {feed.keeps_hours}"


def _doubt(tail: Tail, saved: SavedPosition | None, name: str, feed: Feed) -> str:
    """Why saved position and topic do not say together where the feed was; "" if they do."""
    newest = tail.newest
    if saved is None:
        return _unsaved_doubt(tail, name)
    if saved.topic_id != tail.topic_id:
        return f"it was saved for topic id {saved.topic_id}, and the topic's id is {tail.topic_id}: recreated"
    if saved.feed != name:
        return f"it was saved for feed {saved.feed}"
    for partition, end in saved.ends.items():
        if tail.ends.get(partition, 0) < end:
            return (
                f"partition {partition} ends at {tail.ends.get(partition, 0)} and ended at {end} before: the "
                "topic was restored or truncated"
            )
    deleted = [p for p, (begin, _) in tail.bounds.items() if begin > saved.ends.get(p, 0)]
    if deleted:
        return f"records of partitions {deleted} that came after the position was saved were deleted"
    if lost := _lost(tail, saved, feed):
        return (
            f"records of partitions {lost} were deleted whose ids were not saved yet, so events that come "
            "again cannot be recognised"
        )
    if newest is not None and newest.sequence >= saved.next_sequence:
        return _hidden(tail) or _other_feed(newest, name)
    if saved.ids_sequence < saved.acknowledged and (newest is None or newest.sequence < saved.acknowledged):
        return (
            f"the feed's newest record ({saved.acknowledged}) is not on the topic any more, so events that "
            "come again cannot be recognised"
        )
    return _hidden(tail)


def _lost(tail: Tail, saved: SavedPosition, feed: Feed) -> list[int]:
    """Partitions of which records were deleted that are needed to recognise events that come again: neither
    their ids were saved, nor are all of the last ones on the topic."""
    first = max(saved.ids_sequence, saved.acknowledged - RECENT_PLACES * feed.max_in_flight) + 1
    if {*range(first, saved.acknowledged + 1)} <= {record.sequence for record in tail.records}:
        return []
    return [p for p, (begin, _) in tail.bounds.items() if begin > saved.tail_starts.get(p, begin)]


def _unsaved_doubt(tail: Tail, name: str) -> str:
    if tail.is_new:
        return ""
    if tail.newest is None:
        return "the topic holds or held records, and among its last there is none of the feed"
    return _hidden(tail) or _other_feed(tail.newest, name)


def _hidden(tail: Tail) -> str:
    if not tail.hidden:
        return ""
    return f"the last records of partitions {list(tail.hidden)} are other programs', which hide the feed's"


def _other_feed(newest: StreamPosition, name: str) -> str:
    return "" if newest.feed == name else f"the topic's newest record is of feed {newest.feed}"


def _position(tail: Tail, saved: SavedPosition | None) -> str | None:
    newest = tail.newest
    if saved is None or newest is None:
        return newest.resume if newest else saved.position if saved else None
    # Records that were under way when it was saved have positions that are no newer.
    is_newer = newest.sequence >= saved.next_sequence
    is_first = saved.position is None and newest.sequence >= saved.first_sequence
    return newest.resume if is_newer or is_first else saved.position


def _has_written(tail: Tail, saved: SavedPosition | None) -> bool:
    """Whether a record is on the topic since the producer began with new events."""
    newest = tail.newest
    written = max(newest.sequence if newest else 0, saved.acknowledged if saved else 0)
    return written >= (saved.first_sequence if saved else 1)


def _start(tail: Tail, saved: SavedPosition | None) -> Start:
    newest = tail.newest
    ids = [record.event_id for record in tail.records]
    shown = set(ids)
    following = max(newest.sequence + 1 if newest else 1, saved.next_sequence if saved else 1)
    return Start(
        topic_id=tail.topic_id,
        ends=tail.ends,
        next_sequence=following,
        first_sequence=saved.first_sequence if saved else 1,
        # In their order: the saved ones are as old as what the topic still has of them, or older.
        ids=[*(known for known in (saved.ids if saved else ()) if known not in shown), *ids],
        places=[record.place for record in tail.records],
        decision=saved.decision if saved else None,
    )
