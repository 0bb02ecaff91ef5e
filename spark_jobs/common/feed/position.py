"""From where a feed is resumed: the position that its producer committed, compared with the topic. Pure.

Events and position are one transaction, so the newest position is that of the topic's newest event. Where
they do not go together, one of both was lost, replaced or restored. A position is never guessed: only a feed
that never ran begins with new events; else the producer ends, and a person decides (``[feed.resume]``).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from hashlib import sha256
from typing import Any, Self

from sluice.config.sections.feed import LATEST, SAVED, Feed
from sluice.core.error_codes import ErrorCode
from spark_jobs.common.spark.failures import Unrecoverable

# By as much the clocks of two hosts may differ.
CLOCK_SECONDS = 60


class PositionUnknown(Unrecoverable):
    """Where the feed was is not certain: a restart finds the same, a person must decide."""

    code = ErrorCode.POSITION_UNKNOWN


@dataclass(frozen=True)
class FeedRecord:
    """A record of a feed. ``sequence``: its number among the feed's, from 1; ``event_id``: of its event."""

    sequence: int
    event_id: str


@dataclass(frozen=True)
class Tail:
    """The end of a topic. ``topic_id``: Kafka's; ``positions_id``: of the topic of positions. ``bounds``:
    partition -> (first offset kept, next offset). ``records``: the feed's own from the saved offsets on, by
    their sequence; None if there are too many records to read them."""

    topic_id: str
    positions_id: str
    bounds: Mapping[int, tuple[int, int]]
    records: Sequence[FeedRecord] | None = ()

    @property
    def ends(self) -> dict[int, int]:
        return {partition: end for partition, (_, end) in self.bounds.items()}

    @property
    def is_new(self) -> bool:
        """Nothing was ever written to the topic."""
        return not any(self.ends.values())


@dataclass(frozen=True)
class SavedPosition:
    """A feed's position, committed in one transaction with the events up to there."""

    topic_id: str
    """Kafka's, of the events: a topic with another one was recreated."""
    feed: str
    """Name of the feed that was read."""
    position: str | None = None
    """Up to it every event is in the topic; None if the feed gave none, or begins with new events."""
    next_sequence: int = 1
    """The next record's."""
    first_sequence: int = 1
    """The first since the producer began with new events."""
    ends: dict[int, int] = field(default_factory=dict)
    """Partition -> an offset behind all of the feed's records."""
    ids_ends: dict[int, int] = field(default_factory=dict)
    """As ``ends``, when ``ids`` were saved: events that came later are read from there."""
    ids_sequence: int = 0
    """The sequence up to which ``ids`` were saved."""
    read_at: float = 0.0
    """Up to when the feed's events were handled, in seconds since 1970: when the feed was last heard, or the
    time of the last event while the producer was behind the feed."""
    instance: str = ""
    """The producer's that saved it: each process has another."""
    decision: dict[str, Any] | None = None
    """A person's last, with the finding that it is for."""
    is_former: bool = False
    """It comes from the row of an earlier release in PostgreSQL, which is still there."""
    ids: list[str] = field(default_factory=list, compare=False)
    """Those of the last events, oldest first: their records may be deleted when they come again."""

    def dump(self) -> str:
        """Without ``ids``, which are many and change seldom."""
        document = asdict(self)
        del document["ids"]
        return json.dumps(document, sort_keys=True)

    def dump_ids(self) -> str:
        return json.dumps({"sequence": self.ids_sequence, "ids": self.ids})

    @classmethod
    def parse(cls, text: bytes, ids: bytes | None) -> Self:
        """``ids``: the newest :meth:`dump_ids`, None without one. Ignores keys of a later release."""
        document = json.loads(text)
        for name in ("ends", "ids_ends"):
            document[name] = {int(partition): offset for partition, offset in document[name].items()}
        known = json.loads(ids) if ids is not None else {}
        # Both are of one transaction, unless a record of the topic is lost.
        document["ids"] = known["ids"] if known.get("sequence") == document["ids_sequence"] else []
        if not document["ids"]:
            document["ids_sequence"] = 0
        return cls(**{one.name: document[one.name] for one in fields(cls) if one.name in document})


def resume(
    tail: Tail, saved: SavedPosition | None, name: str, feed: Feed, now: float | None = None
) -> SavedPosition:
    """Where to begin with the feed ``name``, as it is to be saved. Raises PositionUnknown."""
    now = time.time() if now is None else now
    reason = _doubt(tail, saved, name, feed)
    # Without positions each start leaves out what came in between, by declaration.
    if not reason and saved is not None and feed.has_positions:
        reason = gap(feed, saved.read_at, now)
    start = _start(tail, saved or SavedPosition(tail.topic_id, name, read_at=now), name)
    if not reason:
        return start
    number = finding(tail, saved, name)
    if feed.resume is None or feed.resume.finding != number:
        raise unknown(reason, tail, saved, name)
    chosen: str | None = feed.resume.position
    if chosen == SAVED:
        if saved is None or saved.position is None:
            raise unknown(f"{reason}; position is {SAVED!r} and none is", tail, saved, name)
        chosen = saved.position
    decision = {"finding": number, "reason": reason, "position": feed.resume.position, "at": now}
    begins = chosen == LATEST
    return replace(
        start,
        position=None if begins else chosen,
        first_sequence=start.next_sequence if begins else start.first_sequence,
        read_at=now,
        decision=decision,
    )


def unknown(reason: str, tail: Tail, saved: SavedPosition | None, name: str) -> PositionUnknown:
    """The error, with what was found and the ways on."""
    known = "no position is saved" if saved is None else f"saved position: {saved.position}"
    fix = f'[feed.resume] in stream.toml or the override file, finding = "{finding(tail, saved, name)}"'
    kept = "" if saved is None or saved.position is None else f' "{SAVED}" (the saved one),'
    return PositionUnknown(
        f"position of feed {name} is unknown: {reason}; {known}. Fix: write {fix} and position ="
        f'{kept} "{LATEST}" (new events only: those in between are missing) or a position of the feed; then '
        "start the stream"
    )


def finding(tail: Tail, saved: SavedPosition | None, name: str) -> str:
    """Names what was found, so that a decision holds for it alone: the next start saves another position."""
    text = json.dumps([tail.topic_id, tail.positions_id, name, saved.dump() if saved else None])
    return sha256(text.encode()).hexdigest()[:8]


def gap(feed: Feed, read_at: float, now: float) -> str:
    """Why events may be missing behind a position: the feed no longer keeps them; "" if it does."""
    hours = (now - read_at) / 3600
    if not feed.keeps_hours or -CLOCK_SECONDS / 3600 <= hours <= feed.keeps_hours:
        return ""
    if hours < 0:
        return (
            f"the feed was last heard in {-hours:.1f} hours by this machine's clock: a clock was wrong, and "
            f"whether it was within the {feed.keeps_hours} hours of keeps_hours is not known"
        )
    return f"the feed was last heard {hours:.1f} hours ago, and keeps_hours is {feed.keeps_hours}"


def _doubt(tail: Tail, saved: SavedPosition | None, name: str, feed: Feed) -> str:
    """Why saved position and topic do not say together where the feed was; "" if they do."""
    if saved is None:
        return "" if tail.is_new else "the topic holds or held records, and no position is saved with them"
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
    # An earlier release saved now and then, and sent on.
    needed = saved.ids_ends if saved.is_former else saved.ends
    deleted = [p for p, (begin, _) in tail.bounds.items() if begin > needed.get(p, 0)]
    if deleted:
        return f"records of partitions {deleted} that came after the position was saved were deleted"
    if tail.records is None:
        return "too many records came after the ids of the feed's last events were saved to look for more"
    if not saved.is_former and tail.records and tail.records[-1].sequence >= saved.next_sequence:
        return (
            f"the topic has the feed's record {tail.records[-1].sequence}, and the saved position is before "
            f"record {saved.next_sequence}: the topic of positions was restored"
        )
    expected = range(saved.ids_sequence + 1, saved.next_sequence)
    if missing := len(expected) - sum(record.sequence in expected for record in tail.records):
        return (
            f"{missing} of the feed's last records, whose ids were not saved yet, are not on the topic any "
            "more, so events that come again cannot be recognised"
        )
    if feed.has_positions and saved.position is None and _following(tail, saved) > saved.first_sequence:
        return "the feed gave no position with the events that were sent"
    return ""


def _following(tail: Tail, saved: SavedPosition) -> int:
    """The sequence of the next record."""
    return max([saved.next_sequence, *(record.sequence + 1 for record in tail.records or ())])


def _start(tail: Tail, saved: SavedPosition, name: str) -> SavedPosition:
    read = [record.event_id for record in tail.records or ()]
    known = set(read)
    return replace(
        saved,
        topic_id=tail.topic_id,
        feed=name,
        next_sequence=_following(tail, saved),
        ends=tail.ends,
        ids=[*(one for one in saved.ids if one not in known), *read],
    )
