"""``[backfill]`` of a ``stream.toml``: which source files an interval of the schedule has; and
``[intervals]``, of a topic of others: by which times of its records it is loaded."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time
from typing import Annotated

from sluice.config.reading import limits
from sluice.config.reading.toml import ConfigError
from sluice.config.reading.values import shown

PRESETS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
# Years of an interval: Airflow computes with its neighbours.
YEARS = range(1970, 2101)
# Fields of strftime with a fixed width: two digits, a year four, the day of the year three.
FIELDS = frozenset("YmdHMj")
_FIELD = re.compile(r"%(.?)")
_WILDCARDS = {"*": "[^/]*", "?": "[^/]"}


class Scheduled:
    """What declarations with a ``schedule``, of PRESETS or cron, and a ``start_date`` have in common."""

    schedule: str
    start_date: str
    max_active_runs: int

    @property
    def cron(self) -> str:
        return PRESETS.get(self.schedule, self.schedule)

    @property
    def begins(self) -> datetime:
        """Raises ValueError."""
        return datetime.strptime(self.start_date, "%Y-%m-%d").replace(tzinfo=UTC)


@dataclass(frozen=True)
class Intervals(Scheduled):
    """Intervals of the times of a topic's records, of which each is a load."""

    schedule: Annotated[
        str,
        "of `<stream>_load`, in UTC: `@hourly`, `@daily`, `@monthly`, `@yearly` or the five fields of cron; "
        "only a topic that is not `managed` has `[intervals]`",
    ]
    start_date: Annotated[str, "date of the first interval, as `2026-06-01`"]
    max_active_runs: Annotated[int, "runs of `<stream>_load` at a time"] = 1


@dataclass(frozen=True)
class Backfill(Scheduled):
    """``schedule``: of PRESETS, or cron. ``pattern``: with FIELDS of an interval's begin, and wildcards."""

    schedule: Annotated[
        str,
        "of `<stream>_backfill`, in UTC: `@hourly`, `@daily`, `@monthly`, `@yearly` or the five fields of "
        "cron; only a CSV stream has `[backfill]`",
    ]
    pattern: Annotated[
        str,
        "keys of an interval's objects, under `csv.prefix`, with the date of its begin (`%Y`, `%m`, `%d`, "
        "`%j`, `%H`, `%M`) and wildcards `*` and `?`, which match no slash: "
        "`nyc_taxi/yellow_tripdata_%Y-%m*.csv*`",
    ]
    start_date: Annotated[str, "date of the first interval, as `2019-01-31`"]
    max_active_runs: Annotated[int, "runs at a time of the schedule; a backfill has its own limit"] = 4

    def keys(self, begin: datetime) -> str:
        """The pattern of the keys of the interval that begins then: wildcards only."""
        return begin.astimezone(UTC).strftime(self.pattern)


def dag_id(stream: str) -> str:
    return f"{stream}_backfill"


def again(stream: str, begin: datetime) -> str:
    """How to run the interval that begins then once more."""
    at = begin.astimezone(UTC)
    day = at.strftime("%Y-%m-%d") if at.time() == time() else at.isoformat()
    arguments = f"--dag-id {dag_id(stream)} --from-date {day} --to-date {day} --reprocess-behavior failed"
    return (
        "clear the run's produce with its downstream tasks; or run: local/run airflow "
        f"backfill create {arguments} (not on the embedded stack: airflow backfill create …)"
    )


def literal_prefix(keys: str) -> str:
    """What every key of a pattern begins with."""
    return re.split(r"[*?]", keys, maxsplit=1)[0]


def matches(keys: str, key: str) -> bool:
    parts = (_WILDCARDS.get(part, re.escape(part)) for part in re.split(r"([*?])", keys))
    return re.fullmatch("".join(parts), key) is not None


def check(backfill: Backfill, prefix: str, where: str) -> None:
    """``prefix``: of the stream's objects. Raises ConfigError."""
    check_times(backfill, "backfill", where)
    _check_pattern(backfill, backfill.cron.split(), prefix, where)


def check_times(section: Scheduled, name: str, where: str) -> None:
    """The schedule of the section ``name``, and its first interval. Raises ConfigError."""
    # Airflow's own library for it; not needed to import the model.
    from croniter import croniter

    limits.check(section, name, where)
    try:
        begins = section.begins
    except ValueError:
        begins = None
    if begins is None or begins.year not in YEARS:
        raise ConfigError(
            f"{where}: {name} start_date {shown(section.start_date)} is no date of {YEARS[0]} to "
            f"{YEARS[-1]}. Fix: write it as 2019-01-31"
        )
    try:
        # Five valid fields may still name no time, such as 30 February.
        is_schedule = len(section.cron.split()) == 5 and croniter.is_valid(section.cron)
        is_schedule = is_schedule and bool(croniter(section.cron, begins).get_next(datetime))
    except (ValueError, KeyError, OverflowError):
        is_schedule = False
    if not is_schedule:
        raise ConfigError(
            f"{where}: {name} schedule {shown(section.schedule)} is no schedule. Fix: write one of "
            f'{", ".join(PRESETS)}, or the five fields of cron ("0 6 * * *")'
        )


def _check_pattern(backfill: Backfill, fields: list[str], prefix: str, where: str) -> None:
    pattern, found = backfill.pattern, _FIELD.findall(backfill.pattern)
    message = f"{where}: backfill pattern {shown(pattern)}"
    if unknown := sorted(set(found) - FIELDS):
        known = ", ".join(f"%{name}" for name in sorted(FIELDS))
        raise ConfigError(f"{message}: unknown field {shown('%' + unknown[0])}. Fix: use {known}")
    if pattern.startswith("/") or "[" in pattern or not literal_prefix(pattern):
        raise ConfigError(
            f"{message}: it must begin with a folder or a name, without '/' in front, and without '['. "
            'Fix: write it as "folder/name_%Y-%m*.csv*"'
        )
    if not pattern.startswith(prefix) or {".", ".."} & set(pattern.split("/")):
        raise ConfigError(
            f"{message}: the stream's objects are those under {prefix!r}. Fix: begin it with that, or "
            "declare another [csv] prefix"
        )
    missing = [
        " or ".join(f"%{one}" for one in some) for some in _needed(fields) if not set(some) & set(found)
    ]
    if missing:
        raise ConfigError(
            f"{message} names the same files in several intervals of {shown(backfill.schedule)}: without "
            f"{missing[0]}. Fix: add it, or choose a wider schedule"
        )


def _needed(fields: list[str]) -> list[str]:
    """Return the fields of strftime that tell two intervals of a cron expression apart: one of each text."""
    minute, hour, day, month, _ = (not field.isdigit() for field in fields)
    # A weekday is another day each week.
    is_daily = day or fields[4] != "*"
    needed = ["Y", *(["mj"] if month else []), *(["dj"] if is_daily else [])]
    return needed + (["H"] if hour else []) + (["M"] if minute else [])
