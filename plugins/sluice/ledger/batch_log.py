"""Keys and documents of the batch log, in the table's folder: ``<location>/batches/``.

::

    published/<countdown of the oldest>-<countdown of the newest>-<time of the oldest>-<writer>.json
    restored/<countdown>-<countdown of the newest batch of main>-<writer>.json
    rolled-up/<number, falling>.json

A published document has ten batches or more of one writer, oldest first. While one writer publishes, no other
does, so documents of two writers do not overlap in time, and two of one writer overlap only if one begins
with the other: where a crash, or a restored catalog, made a successor record batches again. So in the order
of the keys both the oldest and the newest batch of each document fall.

A restored document says that a writer found another ``main`` than the one whose batches were recorded last: a
backup of the catalog was restored. Among the batches before this, ``main`` has those up to its newest one
then, and those of this writer: if an earlier writer's clock was ahead, this one's come before that time.

The rolled-up document that sorts first has what stays known of published ones that maintenance deleted:
:mod:`sluice.ledger.rolled_up`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sluice.core.tables.batches import Batch, time_of
from sluice.ledger.keys import countdown, counted_down, moment

# Batches are published at times in ms.
_STEP = timedelta(milliseconds=1)
_EARLIEST, LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
FOLDER = "batches"
PUBLISHED, RESTORED, ROLLED_UP = "published/", "restored/", "rolled-up/"
_PUBLISHED_KEY = re.compile(rf"{PUBLISHED}(\d{{17}})-(\d{{17}})-(?:[^/-]+-)?([^/]+)\.json$")
_RESTORED_KEY = re.compile(rf"{RESTORED}(\d{{17}})-(\d{{17}})-([^/]+)\.json$")
_ROLLED_UP_KEY = re.compile(rf"{ROLLED_UP}(\d{{9}})\.json$")
_LAST_NUMBER = 10**9 - 1


@dataclass(frozen=True)
class Span:
    """Times of the oldest and of the newest batch of a published document, and their writer."""

    oldest: datetime
    newest: datetime
    writer: str = ""


@dataclass(frozen=True)
class Restore:
    """At ``at`` ``writer`` found that a catalog had been restored, with a ``main`` whose newest batch was
    published at ``newest`` (the year 1970 if it had none)."""

    at: datetime
    newest: datetime
    writer: str = ""


def published_key(batches: Sequence[Batch]) -> str:
    """The key of a document of these batches of one writer, oldest first."""
    oldest, newest = batches[0], batches[-1]
    begin = oldest.published
    return f"{PUBLISHED}{countdown(begin)}-{countdown(newest.published)}-{moment(begin)}-{oldest.writer}.json"


def published_until(at: datetime) -> str:
    """The keys behind it are those of documents that begin at this time or earlier."""
    return f"{PUBLISHED}{countdown(at)}"


def span_of(key: str) -> Span | None:
    """The times of a published document by its key; None for another key."""
    found = _PUBLISHED_KEY.search(key)
    return Span(counted_down(found[1]), counted_down(found[2]), found[3]) if found else None


def document_of(batches: Iterable[Batch]) -> dict[str, Any]:
    return {"batches": [batch.to_json() for batch in batches]}


def batches_in(document: Mapping[str, Any]) -> list[Batch]:
    """Oldest first."""
    return [Batch.from_json(batch) for batch in document["batches"]]


def restored_key(restore: Restore, writer: str) -> str:
    return f"{RESTORED}{countdown(restore.at)}-{countdown(restore.newest)}-{writer}.json"


def restore_of(key: str) -> Restore | None:
    """The restore of a restored document, by its key; None for another key."""
    found = _RESTORED_KEY.search(key)
    return Restore(counted_down(found[1]), counted_down(found[2]), found[3]) if found else None


def rolled_up_key(number: int) -> str:
    """``number``: from 1 on; the newest sorts first."""
    return f"{ROLLED_UP}{_LAST_NUMBER - number:09d}.json"


def rolled_up_number(key: str) -> int | None:
    """The number of a :func:`rolled_up_key`; None for another key."""
    found = _ROLLED_UP_KEY.search(key)
    return _LAST_NUMBER - int(found[1]) if found else None


def restore_found(
    main: Sequence[Batch], recorded: datetime | None, known: Iterable[Restore], now: datetime
) -> Restore | None:
    """The restore that a writer finds when it acquires the lease at ``now``, None if there was none.

    ``main``: its newest batches, oldest first, at least one more than are not recorded; ``recorded``: when
    the newest recorded batch was published; ``known``: earlier restores. If too few batches are kept, it is
    found without need, which changes nothing.
    """
    known = list(known)
    line = Line.of(known)
    times = [batch.published for batch in main]
    if recorded is None or (recorded in times and all(batch in line for batch in main)):
        return None
    # Later than what it makes lost, also if this machine's clock is behind the earlier writer's; and later
    # than each earlier restore, so that their order is known.
    at = max(now, recorded + _STEP, *(one.at + _STEP for one in known))
    return Restore(at, max(times, default=time_of(0)))


@dataclass(frozen=True)
class Line:
    """Which batches ``main`` has; others are lost. ``ranges``: their times, as ``(after, until]``, newest
    first; ``own``: writers that found a restored catalog, and when batches of each are of ``main`` too."""

    ranges: Sequence[tuple[datetime, datetime]]
    own: Mapping[str, tuple[datetime, datetime]] = field(default_factory=dict)

    @classmethod
    def of(cls, restores: Iterable[Restore], newest: datetime = LATEST) -> Line:
        """``newest``: when the newest batch of ``main`` was published."""
        ranges, own = [], dict[str, tuple[datetime, datetime]]()
        restores = sorted(restores, key=lambda restore: restore.at, reverse=True)
        for restore in restores:
            # One that came later than where an even later one set main back to tells nothing.
            if restore.at < newest:
                ranges.append((restore.at, newest))
                newest = restore.newest
            # Which of two at one time came first is not known: each may have lost the other's batches.
            later = (one.newest for one in restores if one is not restore and one.at >= restore.at)
            until = min((restore.at, *later))
            if restore.newest < until:
                own[restore.writer] = restore.newest, until
        return cls((*ranges, (_EARLIEST, newest)), own)

    def has(self, at: datetime, writer: str) -> bool:
        """Whether ``main`` has a batch that ``writer`` published then."""
        own = [self.own[writer]] if writer in self.own else []
        return any(after < at <= until for after, until in (*self.ranges, *own))

    def __contains__(self, batch: Batch) -> bool:
        return self.has(batch.published, batch.writer)
