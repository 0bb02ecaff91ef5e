"""Generate hits: columns that depend only on a row's number and the parameters.

Every choice is a hash of the seed, the choice's name and its subject, so a row is the same in whatever task.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice.config.sections.generator import Generated
from spark_jobs.common.spark.columns import computed

# A duplicate comes at most this number of rows after its original.
NEAR = 1_000
# Per zipcode; a household is a user.
HOUSEHOLDS = 400
PAGES = 500
# A prime above the largest number of zipcodes: its multiples spread the ranks over all first digits.
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
# HTTP status codes and their cumulative shares.
STATUSES = ((200, 0.90), (304, 0.95), (404, 0.99), (500, 1.0))
_PRECISION = 2**52
_HOUR, _DAY_HOURS = timedelta(hours=1), 24.0
# The hour (UTC) with the fewest hits; twelve hours later are the most.
QUIET_HOUR = 8.0
# The peak rate is (1 + x) / (1 - x) times the lowest: four times.
DAILY_SWING = 0.6

Corruption = Callable[[Column], Column]


def _replace(pattern: str, by: str) -> Corruption:
    return lambda json: F.regexp_replace(json, pattern, by).cast("binary")


# The values of malformed records, made from a hit's JSON.
CORRUPTIONS: Mapping[str, Corruption] = {
    "broken off": lambda json: F.substring(json, F.lit(1), F.length(json) / 2).cast("binary"),
    "not UTF-8": lambda json: F.concat(F.unhex(F.lit("FF")), json.cast("binary")),
    "no value": lambda json: F.lit(None).cast("binary"),
    "no object": lambda json: F.concat(F.lit("["), json, F.lit("]")).cast("binary"),
    "status is a text": _replace('"status":[0-9]+', '"status":"OK"'),
    "no zipcode": _replace('"zipcode":"[0-9]+",', ""),
    "a short zipcode": _replace('"zipcode":"[0-9]+"', '"zipcode":"123"'),
    "hittime is a word": _replace('"hittime":"[^"]+"', '"hittime":"yesterday"'),
    "hittime is zero": _replace('"hittime":"[^"]+"', '"hittime":"1970-01-01T00:00:00.000Z"'),
    "hittime is far ahead": _replace('"hittime":"[^"]+"', '"hittime":"2999-12-31T00:00:00.000Z"'),
}


def hits(rows: DataFrame, parameters: Generated) -> DataFrame:
    """``rows`` (with the column ``row``, a BIGINT) with ``value``: the record's bytes, null for a tombstone.

    Rows are in the order of sending: a hit's time follows from its row and the daily curve, a late hit's is
    earlier, and a duplicate has all values of an earlier hit.
    """
    choices = _Choices(parameters)
    row = F.col("row")
    original = row - 1 - F.pmod(choices.hash("repeated", row), F.lit(NEAR))
    # A corrupt hit, or one that is a duplicate itself, is in no record as it is.
    is_original = (original >= 0) & ~choices.is_duplicate(original) & ~choices.is_corrupt(original)
    is_corrupt = choices.is_corrupt(row)
    is_duplicate = choices.is_duplicate(row) & is_original & ~is_corrupt
    chosen = computed(rows, hit=F.when(is_duplicate, original).otherwise(row))
    ranked = computed(chosen, zip_rank=choices.zipf("zipcode", F.col("hit"), parameters["zipcodes"]))
    homed = computed(
        ranked,
        zipcode=F.lpad(F.pmod(F.col("zip_rank") * ZIPCODE_STEP, F.lit(ZIPCODE_PRIME)).cast("string"), 5, "0"),
        household=F.pmod(choices.hash("household", F.col("hit")), F.lit(HOUSEHOLDS)),
    )
    with_user = computed(homed, user_id=F.format_string("%s-%03d", "zipcode", "household"))
    written = computed(with_user, json=F.to_json(choices.hit()))
    corrupt = F.when(is_corrupt, _corrupt(choices.hash("kind", row), F.col("json")))
    valid = F.when(~is_corrupt, F.col("json").cast("binary"))
    return computed(written, value=F.coalesce(corrupt, valid)).select(*rows.columns, "value")


@dataclass(frozen=True)
class DailyCurve:
    """A source's hits over time: the hit at ``share`` (0 to 1) of all is at the hour
    ``h + stretch * sin(2π (h - QUIET_HOUR) / 24)`` with ``h = first + share * (last - first)``, counted from
    midnight (UTC) of the first day."""

    first: float
    last: float
    stretch: float


def daily_curve(parameters: Generated) -> DailyCurve:
    """The curve from the parameters' beginning to their end."""
    begin = parameters.begins
    hour = (begin - begin.replace(hour=0, minute=0, second=0, microsecond=0)) / _HOUR
    stretch = DAILY_SWING * _DAY_HOURS / (2 * math.pi)

    def uniform(curved: float) -> float:
        """The ``h`` of an hour on the curve, by bisection: the curve never decreases."""
        low, high = curved - _DAY_HOURS, curved + _DAY_HOURS
        for _ in range(80):
            middle = (low + high) / 2
            value = middle + stretch * math.sin(2 * math.pi * (middle - QUIET_HOUR) / _DAY_HOURS)
            low, high = (middle, high) if value < curved else (low, middle)
        return (low + high) / 2

    return DailyCurve(uniform(hour), uniform(hour + parameters["duration_hours"]), stretch)


def _corrupt(kind: Column, json: Column) -> Column:
    chosen = F.when(F.lit(False), json.cast("binary"))
    for number, corruption in enumerate(CORRUPTIONS.values()):
        chosen = chosen.when(F.pmod(kind, F.lit(len(CORRUPTIONS))) == number, corruption(json))
    return chosen


@dataclass(frozen=True)
class _Choices:
    parameters: Generated

    def hash(self, of: str, *keys: Column) -> Column:
        return F.xxhash64(F.lit(self.parameters["seed"]), F.lit(of), *keys)

    def chance(self, of: str, *keys: Column) -> Column:
        """Uniform from 0 to below 1."""
        return F.pmod(self.hash(of, *keys), F.lit(_PRECISION)) / _PRECISION

    def zipf(self, of: str, key: Column, size: int) -> Column:
        """A rank from 1 to ``size``: the share of rank ``k`` is ln((k + 1) / k) of ln(size + 1), which is
        Zipf's 1 / k, smoothed."""
        return F.floor(F.exp(self.chance(of, key) * math.log(size + 1)))

    def is_corrupt(self, row: Column) -> Column:
        return self.chance("malformed", row) < self.parameters["malformed_percent"] / 100

    def is_duplicate(self, row: Column) -> Column:
        return self.chance("duplicate", row) < self.parameters["duplicate_percent"] / 100

    def hit(self) -> Column:
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
            # 304 has no body; else mostly some KB, rarely some MB.
            F.when(status == 304, F.lit(0))
            .otherwise(F.floor(F.exp(self.chance("bytes", key) * 4 + self.chance("more", key) * 4 + 6)))
            .alias("bytes"),
        )

    def _time(self, key: Column) -> Column:
        curve = daily_curve(self.parameters)
        midnight = self.parameters.begins.replace(hour=0, minute=0, second=0, microsecond=0)
        uniform = curve.first + (key + 0.5) / self.parameters.rows * (curve.last - curve.first)
        hour = uniform + curve.stretch * F.sin((uniform - QUIET_HOUR) * (2 * math.pi / 24))
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
        """In 100.64.0.0/10, the carriers' shared range (RFC 6598)."""
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


def _among(words: Sequence[str], index: Column) -> Column:
    return F.array(*map(F.lit, words))[index.cast("int")]
