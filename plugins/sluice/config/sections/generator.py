"""A data generator: its parameters, the identity of its rows, and their order."""

from __future__ import annotations

import hashlib
import json
import math
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from sluice.config.reading.toml import IDENTIFIER, IDENTIFIER_FIX, ConfigError
from sluice.config.reading.values import shown
from sluice.core.offsets.ranges import OffsetRanges

# Minutes of events that one Spark task generates, and its minimum of rows: a task costs some 10 ms.
TASK_MINUTES, TASK_ROWS = 2, 1_000

# Keywords of a parameter's JSON Schema that Airflow's form shows. Others could refer to other servers, or
# take hours to match.
NEEDED = ("type", "default", "title", "description")
KEYWORDS = frozenset(
    {
        *NEEDED,
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("enum", "format", "minLength", "maxLength", "examples"),
    }
)

DAY = timedelta(days=1)
# Time limit of a run's task.
MAX_SENDING = timedelta(hours=12)

# The parameters of every generator, as JSON Schema.
COMMON: Mapping[str, Mapping[str, Any]] = {
    "rows": {
        "type": "integer",
        "default": 100_000,
        "minimum": 1,
        "maximum": 1_000_000_000,
        "title": "Rows",
        "description": "Number of records to send",
    },
    "start_time": {
        "type": ["string", "null"],
        "default": None,
        "format": "date-time",
        "title": "Begin",
        "description": "Time of the first event, as 2026-11-21T10:00:00Z; default: the last event is of the "
        "last full hour",
    },
    "duration_hours": {
        "type": "integer",
        "default": 1,
        "minimum": 1,
        "maximum": 24 * 366,
        "title": "Hours",
        "description": "Hours over which the events are spread; they must not end more than a "
        "day from now, and windows leave out those that are dated ahead",
    },
    "rows_per_second": {
        "type": "integer",
        "default": 0,
        "minimum": 0,
        "maximum": 1_000_000_000,
        "title": "Rows per second",
        "description": "Rate of sending, for at most 12 hours; 0: as fast as possible",
    },
    "seed": {
        "type": ["integer", "null"],
        "default": None,
        "minimum": 0,
        "maximum": 2**53 - 1,
        "title": "Seed",
        "description": "The same seed and values make the same rows; default: a seed of the run's own",
    },
}

# Schemas of parameters whose problems are kept.
MAX_FOUND = 1000
_found: dict[str, tuple[str, str]] = {}


@dataclass(frozen=True)
class Generator:
    """Records that the function ``rows`` makes from row numbers (from 0) and the load's parameters.

    ``params``: JSON Schemas of its own parameters, and changes to those of COMMON.
    """

    rows: Annotated[str, "`module:function` of the folder: from row numbers to records"]
    version: Annotated[int, "raise it if the same parameters generate other rows"] = 1
    params: Annotated[
        dict[str, dict[str, Any]],
        "one section `[generator.params.<name>]` per parameter: [below](#a-stream-of-generated-rows)",
    ] = field(default_factory=dict)

    @property
    def schemas(self) -> dict[str, dict[str, Any]]:
        """Parameter -> JSON Schema, the common ones first."""
        return {
            name: {**COMMON.get(name, {}), **self.params.get(name, {})} for name in {**COMMON, **self.params}
        }


@dataclass(frozen=True)
class Generated:
    """A generated source: the value of every parameter, from :func:`parse`."""

    values: Mapping[str, Any]
    version: int = 1

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def rows(self) -> int:
        return int(self["rows"])

    @property
    def source_id(self) -> str:
        document = json.dumps({**self.values, "generator": self.version}, sort_keys=True)
        return hashlib.sha256(f"generated\n{document}".encode()).hexdigest()[:16]

    @property
    def begins(self) -> datetime:
        return datetime.fromisoformat(self["start_time"]).astimezone(UTC)

    @property
    def ends(self) -> datetime:
        return self.begins + timedelta(hours=self["duration_hours"])

    def slices(self) -> Iterator[tuple[int, int]]:
        """Half-open ranges of rows to be sent at once: those of a second, or all."""
        size = self["rows_per_second"] or self.rows
        return ((first, min(first + size, self.rows)) for first in range(0, self.rows, size))

    def tasks(self, rows: int) -> int:
        """Number of Spark tasks for ``rows`` consecutive rows. Each sends in order, so events of one time are
        sent within minutes and the watermark passes none of them."""
        minutes = 60 * self["duration_hours"] * rows / self.rows
        return max(1, min(math.ceil(minutes / TASK_MINUTES), rows // TASK_ROWS))


def describe(values: Mapping[str, Any]) -> str:
    rows, seed, begin, hours = (values[name] for name in ("rows", "seed", "start_time", "duration_hours"))
    return f"{rows} generated rows of seed {seed} from {begin}, {hours} h"


def next_range(pending: deque[tuple[int, int]], done: int, due: float) -> tuple[int, int]:
    """Take the next slice from ``pending``, with those after it that are due: ``done`` rows are sent of
    ``due``. So a sender that is slower than a slice per second keeps the rate."""
    first, until = pending.popleft()
    while pending and pending[0][0] == until and done + until - first <= due:
        _, until = pending.popleft()
    return first, until


def check(generator: Generator, where: str) -> None:
    """Raises ConfigError for a parameter that Airflow's form cannot show, or a default that it refuses."""
    if not 1 <= generator.version < 2**31:
        raise ConfigError(f"{where}: generator version is {generator.version}. Fix: write at least 1")
    for name, schema in generator.schemas.items():
        place = f"{where}: generator params {shown(name)}"
        if not IDENTIFIER.fullmatch(name):
            raise ConfigError(f"{place}. {IDENTIFIER_FIX}")
        if missing := [key for key in NEEDED if key not in schema]:
            raise ConfigError(f"{place}: key {missing[0]!r} is missing. Fix: add it")
        if unknown := sorted(set(schema) - KEYWORDS):
            raise ConfigError(
                f"{place}: unknown key {shown(unknown[0])}; known keys are {', '.join(sorted(KEYWORDS))}. "
                "Fix: remove it"
            )
        common = COMMON.get(name, schema)
        if schema["type"] != common["type"]:
            raise ConfigError(f"{place}: type {shown(schema['type'])} of a common parameter. Fix: remove it")
        is_none, misfit = _problems(schema)
        if is_none:
            raise ConfigError(f"{place}: no JSON Schema: {shown(is_none)}. Fix: correct it")
        if schema.get("minimum", 0) < common.get("minimum", schema.get("minimum", 0)):
            raise ConfigError(
                f"{place}: minimum is {shown(schema['minimum'])}. Fix: write at least {common['minimum']}"
            )
        if misfit:
            raise ConfigError(
                f"{place}: default {shown(schema['default'])} does not fit: {shown(misfit)}. Fix: "
                "correct the default or the limits"
            )


def _problems(schema: Mapping[str, Any]) -> tuple[str, str]:
    """Why this is no JSON Schema, else why its default does not fit; empty for what is right. The common
    parameters are those of each generator, so what was found is kept."""
    # Not at the top: only generators need it.
    from jsonschema import Draft202012Validator, SchemaError

    text = repr(schema)
    if text not in _found:
        if len(_found) >= MAX_FOUND:
            _found.clear()
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            _found[text] = str(error.message), ""
        else:
            misfit = next(Draft202012Validator(schema).iter_errors(schema["default"]), None)
            _found[text] = "", "" if misfit is None else str(misfit.message)
    return _found[text]


def parse(generator: Generator, document: Mapping[str, Any], where: str) -> Generated:
    """Check parameters, and fill in defaults. Raises ConfigError naming ``where``, the key and the value."""
    # Not at the top: only loads need it.
    from jsonschema import Draft202012Validator

    schemas = generator.schemas
    unknown = sorted(set(document) - set(schemas))
    if unknown:
        raise ConfigError(f"{where}: unknown key {unknown[0]!r}; known keys are {', '.join(sorted(schemas))}")
    values = {}
    for name, schema in schemas.items():
        value = document.get(name, schema["default"])
        error = next(Draft202012Validator(schema).iter_errors(value), None)
        if error is not None:
            raise ConfigError(f"{where}: {name} is {value!r}: {error.message}")
        # 1.0 is an integer to JSON Schema, and would give another source id than 1.
        if isinstance(value, int | float) and not isinstance(value, bool):
            if not math.isfinite(value):
                raise ConfigError(f"{where}: {name} is {value!r}: not a number")
            value = float(value) if "number" in schema["type"] else int(value)
        values[name] = value
    found = Generated(values, generator.version)
    if values["seed"] is None:
        raise ConfigError(f"{where}: seed is None. Fix: give a number")
    _check_begin(values["start_time"], where)
    rate = values["rows_per_second"]
    sending = timedelta(seconds=found.rows / rate) if rate else timedelta()
    if sending > MAX_SENDING:
        raise ConfigError(
            f"{where}: {found.rows} rows at {rate} per second take {sending}; they must not take longer than "
            f"{MAX_SENDING}. Fix: ask for fewer rows, or more per second"
        )
    return found


def _check_begin(begin: str | None, where: str) -> None:
    try:
        zone = datetime.fromisoformat(begin or "").tzinfo
    except ValueError as error:
        raise ConfigError(
            f"{where}: start_time {begin!r} is no time. Fix: write 2026-11-21T10:00:00Z"
        ) from error
    if zone is None:
        raise ConfigError(
            f"{where}: start_time {begin!r} names no time zone. Fix: write 2026-11-21T10:00:00Z"
        )


def check_not_in_future(found: Generated, now: datetime, where: str) -> None:
    """Raises ConfigError if events sent at ``now`` would lie more than a day ahead, and so be quarantined.
    Those less far ahead are loaded; queries leave them out of windows."""
    if found.ends > now + DAY:
        raise ConfigError(
            f"{where}: {found['duration_hours']} hours from {found['start_time']} end more than a day after "
            "now, and such events are quarantined. Fix: begin earlier, or take fewer hours"
        )


def truncate_to_hour(moment: datetime) -> str:
    start = moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return start.strftime("%Y-%m-%dT%H:%M:%SZ")


def sequences(first: int, until: int, partition_count: int) -> OffsetRanges:
    """Target partition -> sequence numbers of the rows ``[first, until)``: row ``n`` goes to partition
    ``n % partition_count`` with number ``n // partition_count``."""

    def sent(rows: int, partition: int) -> int:
        return max(0, -((partition - rows) // partition_count))

    return OffsetRanges.of({p: [(sent(first, p), sent(until, p))] for p in range(partition_count)})
