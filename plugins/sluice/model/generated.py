"""A generated source: the parameters from which every row of it follows, and who it is.

Rows are numbered from 0. Where ``lanes`` partitions of a topic share them, row ``n`` goes to lane
``n % lanes``, as number ``n // lanes`` of those: its ``seq``.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any

from sluice.model.config import ConfigError, build
from sluice.model.ranges import Ranges, RangeSet

# Of what the rows are made of; a generator that makes other rows of the same parameters gets another one.
VERSION = 1

# So many minutes of hits a task of Spark's sends, but no fewer rows than that: each costs some 10 ms.
TASK_MINUTES, TASK_ROWS = 2, 1_000

MOST_HITS = 1_000_000_000
MOST_HOURS = 24 * 366
MOST_ZIPCODES = 50_000
MOST_ISPS = 1_000
OLDEST = datetime(2001, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)
# What a run's step may take.
MOST_SENDING = timedelta(hours=12)

_HOUR, _DAY_HOURS = timedelta(hours=1), 24.0
# The fewest hits come at this hour (UTC), the most twelve hours later.
QUIET_HOUR = 8.0
# At the busiest moment come (1 + SWING) / (1 - SWING) times the hits of the quietest: four times.
SWING = 0.6


@dataclass(frozen=True)
class Generated:
    """``hits`` records whose events come between ``begin`` (UTC, as ``2026-11-21T10:00:00Z``) and ``hours``
    later, most of them in the evening, to so many ``zipcodes`` and ``isps``.

    So many percent of them come late, by half of ``late_minutes`` to all of them; repeat an earlier hit; are
    malformed. ``per_second``: how fast they are sent; 0: as fast as it goes.
    """

    hits: int
    seed: int
    begin: str
    hours: int = 1
    zipcodes: int = 2_000
    isps: int = 40
    late_percent: float = 2.0
    late_minutes: int = 30
    duplicate_percent: float = 1.0
    malformed_percent: float = 0.5
    per_second: int = 0

    @property
    def source_id(self) -> str:
        """The 16 hex digits that stand for exactly these rows."""
        document = json.dumps({**asdict(self), "generator": VERSION}, sort_keys=True)
        return hashlib.sha256(f"generated\n{document}".encode()).hexdigest()[:16]

    @property
    def begins(self) -> datetime:
        return datetime.fromisoformat(self.begin).astimezone(UTC)

    @property
    def ends(self) -> datetime:
        return self.begins + self.hours * _HOUR

    def sentence(self) -> str:
        """What they are, for messages."""
        return f"{self.hits} generated hits of seed {self.seed} from {self.begin}, {self.hours} h"

    def document(self) -> dict[str, Any]:
        """For a plan; :func:`parse` reads it."""
        return asdict(self)

    def slices(self) -> Iterator[tuple[int, int]]:
        """The rows that are sent at once, as half-open ranges: those of a second, or all of them."""
        size = self.per_second or self.hits
        return ((first, min(first + size, self.hits)) for first in range(0, self.hits, size))

    def tasks(self, rows: int) -> int:
        """Into how many parts so many rows in a row are divided that are sent a few at a time, in their
        order:
        so that hits of one moment come within minutes, and a watermark passes no hit that is not late."""
        minutes = 60 * self.hours * rows / self.hits
        return max(1, min(math.ceil(minutes / TASK_MINUTES), rows // TASK_ROWS))


def next_range(pending: deque[tuple[int, int]], done: int, due: float) -> tuple[int, int]:
    """Take from ``pending`` slices the rows that are sent next, in one piece.

    The first slice, and those right behind it whose time has come, too: ``done`` rows are sent, and ``due``
    are those that should be by now. So who is slower than a slice a second keeps the rate all the same.
    """
    first, until = pending.popleft()
    while pending and pending[0][0] == until and done + until - first <= due:
        _, until = pending.popleft()
    return first, until


def parse(document: Mapping[str, Any], where: str) -> Generated:
    """From a plan, or a form's values. Whole numbers count as numbers.

    Raises ConfigError naming ``where``, the key, the value and the mend: an unknown or missing key, another
    type, a value that is out of its bounds.
    """
    decimals = {field.name for field in fields(Generated) if field.name.endswith("_percent")}
    given = {
        key: float(value) if key in decimals and type(value) is int else value
        for key, value in document.items()
    }
    found = build(Generated, given, where)
    for name, low, high in (
        ("hits", 1, MOST_HITS),
        ("seed", 0, 2**63 - 1),
        ("hours", 1, MOST_HOURS),
        ("zipcodes", 1, MOST_ZIPCODES),
        ("isps", 1, MOST_ISPS),
        ("late_percent", 0, 100),
        ("late_minutes", 1, 24 * 60),
        ("duplicate_percent", 0, 100),
        ("malformed_percent", 0, 100),
        ("per_second", 0, MOST_HITS),
    ):
        value = getattr(found, name)
        # Written so that a NaN is refused too.
        if not low <= value <= high:
            raise ConfigError(f"{where}: {name} is {value}; it must be from {low} to {high}")
    _check_begin(found, where)
    sending = timedelta(seconds=found.hits / found.per_second) if found.per_second else timedelta()
    if sending > MOST_SENDING:
        raise ConfigError(
            f"{where}: {found.hits} hits at {found.per_second} per second take {sending}; they must not take "
            f"longer than {MOST_SENDING}: ask for fewer hits, or more per second"
        )
    return found


def _check_begin(found: Generated, where: str) -> None:
    try:
        zone = datetime.fromisoformat(found.begin).tzinfo
    except ValueError as error:
        raise ConfigError(f"{where}: begin {found.begin!r} is no time; write 2026-11-21T10:00:00Z") from error
    if zone is None:
        raise ConfigError(f"{where}: begin {found.begin!r} names no time zone; write 2026-11-21T10:00:00Z")
    if found.begins < OLDEST + timedelta(minutes=found.late_minutes):
        raise ConfigError(f"{where}: begin {found.begin!r} lies before 2001; hits of then are quarantined")


def refuse_the_future(found: Generated, now: datetime, where: str) -> None:
    """Raises ConfigError where hits of these parameters, sent at ``now``, would lie more than a day ahead."""
    if found.ends > now + DAY:
        raise ConfigError(
            f"{where}: {found.hours} hours from {found.begin} end more than a day after now, and such hits "
            "are quarantined; begin earlier, or take fewer hours"
        )


def hour_of(moment: datetime) -> str:
    """The beginning of its hour, in UTC, as ``begin`` is written. ``moment`` is aware."""
    begun = moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return begun.strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class Rhythm:
    """How the hits of a source lie in time: a hit at ``share`` (0 to 1) of all of them comes at the hour
    ``h + stretch * sin(2π (h - QUIET_HOUR) / 24)`` with ``h = first + share * (last - first)``, counted
    from midnight (UTC) of the day on which they begin."""

    first: float
    last: float
    stretch: float


def rhythm(found: Generated) -> Rhythm:
    """That of these parameters: its share 0 is their beginning, 1 their end."""
    begin = found.begins
    hour = (begin - begin.replace(hour=0, minute=0, second=0, microsecond=0)) / _HOUR
    stretch = SWING * _DAY_HOURS / (2 * math.pi)

    def evenly(wanted: float) -> float:
        """Where ``h`` comes to that hour; it never runs back, so halving finds it."""
        low, high = wanted - _DAY_HOURS, wanted + _DAY_HOURS
        for _ in range(80):
            middle = (low + high) / 2
            turned = middle + stretch * math.sin(2 * math.pi * (middle - QUIET_HOUR) / _DAY_HOURS)
            low, high = (middle, high) if turned < wanted else (low, middle)
        return (low + high) / 2

    return Rhythm(evenly(hour), evenly(hour + found.hours), stretch)


def seqs(first: int, until: int, lanes: int) -> RangeSet:
    """Lane -> the seqs of the rows ``[first, until)``."""
    return RangeSet(
        {
            lane: found
            for lane in range(lanes)
            if (found := Ranges.of([(_count(first, lane, lanes), _count(until, lane, lanes))]))
        }
    )


def _count(rows: int, lane: int, lanes: int) -> int:
    """How many of the first ``rows`` rows go to the lane."""
    return max(0, -((lane - rows) // lanes))
