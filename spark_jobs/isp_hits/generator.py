"""Hits that nobody asked for: columns that follow from a row's number and the parameters alone.

Every choice is a hash of the seed, of what is chosen, and of what it is chosen for, so a row is the same
whatever else is made, in whatever task. What is not of one row alone (a household's ISP, a repeated hit)
follows from the household, and from the earlier row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice.model.spec.generator import Generated
from spark_jobs.common.spark.session import computed

# A repeat comes among so many records after its first coming.
NEAR = 1_000
# Of a zipcode; one of them is a user.
HOUSEHOLDS = 400
PAGES = 500
# A prime above the most zipcodes: its multiples scatter the ranks over all first digits, each to another.
ZIPCODE_STEP, ZIPCODE_PRIME = 39_119, 99_991
NAMES = (
    "Northern",
    "Harbor",
    "Prairie",
    "Summit",
    "Lakeside",
    "Union",
    "Pioneer",
    "Coastal",
    "Valley",
    "Metro",
)
KINDS = ("Cable", "Fiber", "Telecom", "Wireless")
# HTTP's status codes, each up to so much of all hits.
STATUSES = ((200, 0.90), (304, 0.95), (404, 0.99), (500, 1.0))
_PRECISION = 2**52
_HOUR, _DAY_HOURS = timedelta(hours=1), 24.0
# The fewest hits come at this hour (UTC), the most twelve hours later.
QUIET_HOUR = 8.0
# At the busiest moment come (1 + SWING) / (1 - SWING) times the hits of the quietest: four times.
DAILY_SWING = 0.6

Spoil = Callable[[Column], Column]


def _instead(pattern: str, by: str) -> Spoil:
    return lambda json: F.regexp_replace(json, pattern, by).cast("binary")


# What a malformed record has in place of a hit's JSON.
SPOILT: Mapping[str, Spoil] = {
    "broken off": lambda json: F.substring(json, F.lit(1), F.length(json) / 2).cast("binary"),
    "not UTF-8": lambda json: F.concat(F.unhex(F.lit("FF")), json.cast("binary")),
    "no value": lambda json: F.lit(None).cast("binary"),
    "no object": lambda json: F.concat(F.lit("["), json, F.lit("]")).cast("binary"),
    "status is a text": _instead('"status":[0-9]+', '"status":"OK"'),
    "no zipcode": _instead('"zipcode":"[0-9]+",', ""),
    "a short zipcode": _instead('"zipcode":"[0-9]+"', '"zipcode":"123"'),
    "hittime is a word": _instead('"hittime":"[^"]+"', '"hittime":"yesterday"'),
    "hittime is zero": _instead('"hittime":"[^"]+"', '"hittime":"1970-01-01T00:00:00.000Z"'),
    "hittime is far ahead": _instead('"hittime":"[^"]+"', '"hittime":"2999-12-31T00:00:00.000Z"'),
}


def hits(rows: DataFrame, parameters: Generated) -> DataFrame:
    """``rows`` (with the column ``row``, a BIGINT) with ``value``: the record's bytes, null for a tombstone.

    Rows are ordered by when they come: a hit lies where its row's place puts it in the day's rhythm, a late
    one earlier, and a repeated one is an earlier hit with all its values.
    """
    made = _Choices(parameters)
    row = F.col("row")
    first = row - 1 - F.pmod(made.hash("repeated", row), F.lit(NEAR))
    # An earlier one that is spoilt, or itself a repeat, is on no record as it is.
    repeats = made.repeats(row) & (first >= 0) & ~made.repeats(first) & ~made.spoils(first)
    chosen = computed(rows, hit=F.when(repeats & ~made.spoils(row), first).otherwise(row))
    placed = computed(chosen, zip_rank=made.zipf("zipcode", F.col("hit"), parameters["zipcodes"]))
    homed = computed(
        placed,
        zipcode=F.lpad(F.pmod(F.col("zip_rank") * ZIPCODE_STEP, F.lit(ZIPCODE_PRIME)).cast("string"), 5, "0"),
        household=F.pmod(made.hash("household", F.col("hit")), F.lit(HOUSEHOLDS)),
    )
    known = computed(homed, user_id=F.format_string("%s-%03d", "zipcode", "household"))
    written = computed(known, json=F.to_json(made.hit()))
    spoilt = F.when(made.spoils(row), _spoilt(made.hash("kind", row), F.col("json")))
    whole = F.when(~made.spoils(row), F.col("json").cast("binary"))
    return computed(written, value=F.coalesce(spoilt, whole)).select(*rows.columns, "value")


@dataclass(frozen=True)
class Rhythm:
    """How the hits of a source lie in time: a hit at ``share`` (0 to 1) of all of them comes at the hour
    ``h + stretch * sin(2π (h - QUIET_HOUR) / 24)`` with ``h = first + share * (last - first)``, counted
    from midnight (UTC) of the day on which they begin."""

    first: float
    last: float
    stretch: float


def rhythm(parameters: Generated) -> Rhythm:
    """That of these parameters: its share 0 is their beginning, 1 their end."""
    begin = parameters.begins
    hour = (begin - begin.replace(hour=0, minute=0, second=0, microsecond=0)) / _HOUR
    stretch = DAILY_SWING * _DAY_HOURS / (2 * math.pi)

    def evenly(wanted: float) -> float:
        """Where ``h`` comes to that hour; it never runs back, so halving finds it."""
        low, high = wanted - _DAY_HOURS, wanted + _DAY_HOURS
        for _ in range(80):
            middle = (low + high) / 2
            turned = middle + stretch * math.sin(2 * math.pi * (middle - QUIET_HOUR) / _DAY_HOURS)
            low, high = (middle, high) if turned < wanted else (low, middle)
        return (low + high) / 2

    return Rhythm(evenly(hour), evenly(hour + parameters["duration_hours"]), stretch)


def _spoilt(kind: Column, json: Column) -> Column:
    chosen = F.when(F.lit(False), json.cast("binary"))
    for number, spoil in enumerate(SPOILT.values()):
        chosen = chosen.when(F.pmod(kind, F.lit(len(SPOILT))) == number, spoil(json))
    return chosen


@dataclass(frozen=True)
class _Choices:
    parameters: Generated

    def hash(self, of: str, *keys: Column) -> Column:
        return F.xxhash64(F.lit(self.parameters["seed"]), F.lit(of), *keys)

    def chance(self, of: str, *keys: Column) -> Column:
        """From 0 to below 1, evenly."""
        return F.pmod(self.hash(of, *keys), F.lit(_PRECISION)) / _PRECISION

    def zipf(self, of: str, key: Column, size: int) -> Column:
        """A rank from 1 to ``size``: the share of rank ``k`` is ln((k + 1) / k) of ln(size + 1), which is
        Zipf's 1 / k, smoothed."""
        return F.floor(F.exp(self.chance(of, key) * math.log(size + 1)))

    def spoils(self, row: Column) -> Column:
        return self.chance("malformed", row) < self.parameters["malformed_percent"] / 100

    def repeats(self, row: Column) -> Column:
        return self.chance("duplicate", row) < self.parameters["duplicate_percent"] / 100

    def hit(self) -> Column:
        """The hit ``hit``, of household ``user_id`` in ``zipcode``."""
        key, user = F.col("hit"), F.col("user_id")
        status = self._status(self.chance("status", key))
        return F.struct(
            F.concat(F.lit(f"{self.parameters.source_id}-"), key.cast("string")).alias("hit_id"),
            F.date_format(self._time(key), "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'").alias("hittime"),
            "zipcode",
            self._isp(self.zipf("isp", user, self.parameters["isps"])).alias("isp"),
            self._ip(user).alias("ip"),
            "user_id",
            F.format_string("https://www.example.com/p/%d", self.zipf("page", key, PAGES)).alias("url"),
            status.alias("status"),
            # Of an answer without a body nothing, else mostly some KB, rarely some MB.
            F.when(status == 304, F.lit(0))
            .otherwise(F.floor(F.exp(self.chance("bytes", key) * 4 + self.chance("more", key) * 4 + 6)))
            .alias("bytes"),
        )

    def _time(self, key: Column) -> Column:
        found = rhythm(self.parameters)
        midnight = self.parameters.begins.replace(hour=0, minute=0, second=0, microsecond=0)
        even = found.first + (key + 0.5) / self.parameters.rows * (found.last - found.first)
        hour = even + found.stretch * F.sin((even - QUIET_HOUR) * (2 * math.pi / 24))
        late = self.chance("late", key) < self.parameters["late_percent"] / 100
        minutes = self.parameters["max_late_minutes"] * (0.5 + self.chance("minutes", key) / 2)
        milliseconds = F.floor(hour * 3_600_000 - F.when(late, minutes * 60_000).otherwise(0.0))
        return F.timestamp_millis(F.lit(int(midnight.timestamp() * 1_000)) + milliseconds)

    @staticmethod
    def _isp(rank: Column) -> Column:
        of_name, of_kind = F.pmod(rank - 1, F.lit(len(NAMES))), F.floor((rank - 1) / len(NAMES))
        number = F.floor(of_kind / len(KINDS)) + 1
        name = F.concat_ws(" ", _among(NAMES, of_name), _among(KINDS, F.pmod(of_kind, F.lit(len(KINDS)))))
        return F.when(number == 1, name).otherwise(F.concat_ws(" ", name, number.cast("string")))

    def _ip(self, user: Column) -> Column:
        """Of 100.64.0.0/10, which carriers share (RFC 6598) and nobody has."""
        number = F.pmod(self.hash("ip", user), F.lit(2**22))
        return F.format_string(
            "100.%d.%d.%d",
            F.lit(64) + F.shiftright(number, 16),
            F.shiftright(number, 8).bitwiseAND(255),
            number.bitwiseAND(255),
        )

    @staticmethod
    def _status(chance: Column) -> Column:
        chosen = F.when(chance < STATUSES[0][1], STATUSES[0][0])
        for status, share in STATUSES[1:]:
            chosen = chosen.when(chance < share, status)
        return chosen


def _among(words: Sequence[str], place: Column) -> Column:
    """The word at that place, from 0."""
    return F.array(*map(F.lit, words))[place.cast("int")]
