"""``[queries.<name>]`` of a ``stream.toml``: a continuous query."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from sluice.config.reading import limits, names
from sluice.config.reading.toml import IDENTIFIER, IDENTIFIER_FIX, ConfigError
from sluice.config.reading.values import shown
from sluice.config.sections import page as page_spec
from sluice.config.sections.page import Page
from sluice.config.sections.sink import DEBUG_SINKS, NEEDS, Sink, SinkKind
from sluice.core.queries.result import VERSION, WINDOW

# Column of a stream's table: when the record came to Kafka.
ARRIVAL = "_kafka_timestamp"

_DISTINCT = re.compile(r"distinct ([a-z][a-z0-9_]*)")
_PREFIX = re.compile(r"([A-Za-z0-9][A-Za-z0-9._=-]*/)+")
_DAY_MINUTES = 1440
_Refuse = Callable[[str], ConfigError]


class Mode(StrEnum):
    # Output of a batch: the groups that changed, or all.
    UPDATE = "update"
    COMPLETE = "complete"
    # Rows as they arrive, of a query without aggregates.
    APPEND = "append"


# Columns in a message.
MAX_NAMED = 30
# Types of a result's key: each value has a unique text.
KEY_TYPES = ("string", "int", "bigint", "date", "boolean")


@dataclass(frozen=True)
class TimeWindow:
    size_minutes: Annotated[int, "length of a window, `[start, end)`"]
    slide_minutes: Annotated[
        int,
        "a window begins every N minutes; at most `size_minutes`, and a divisor of a day",
    ]
    offset_minutes: Annotated[int, "the day's first window begins N minutes past midnight (UTC)"] = 0

    def starts(self, at: int) -> list[int]:
        """Starts of all windows that contain ``at``; seconds since 1970, earliest first."""
        every, length, shift = self.slide_minutes * 60, self.size_minutes * 60, self.offset_minutes * 60
        last = at - (at - shift) % every
        return sorted(range(last, at - length, -every))


@dataclass(frozen=True)
class Query:
    """Aggregates of rows by ``group_by`` columns and, with a ``window``, by windows of ``event_time``.

    Windows that ended more than ``watermark_minutes`` before the newest event are final; later rows for them
    are stored as late. A row without event time, or with one more than ``watermark_minutes`` after its
    ARRIVAL, is early: it is in no window, and moves no watermark. A result has the columns of ``group_by``,
    ``window_start``, ``aggregates``, and ``version``, its batch number.
    """

    sinks: Annotated[list[Sink], "where results go, in this order; at least one"]
    group_by: Annotated[
        list[str],
        "the grouping columns, a result's key; of a query without aggregates, its folders",
    ]
    aggregates: Annotated[
        dict[str, str],
        "a result's column = `count`, or `distinct <column>` (exact; null does not count). Without "
        "aggregates the rows themselves are the result",
    ] = field(default_factory=dict)
    event_time: Annotated[str, "the column of the event time; required with a window"] = ""
    window: TimeWindow | None = None
    watermark_minutes: Annotated[
        int,
        "a row that comes N minutes after its window's end is late: not counted, stored apart. A row dated "
        "more than N minutes after its arrival is [early](architecture.md#how-queries-are-counted): in no "
        "window, counted as `early_rows`. With a window at least 1",
    ] = 0
    mode: Annotated[
        str,
        "`update`: a batch writes the results that it changed; `complete`: all results, only without a "
        "window; `append`: the rows, only without aggregates",
    ] = Mode.UPDATE.value
    trigger_seconds: Annotated[int, "seconds between batches"] = 10
    where: Annotated[
        dict[str, list[str]],
        'column = its values, as in `where = { type = ["edit", "new"] }`; other rows are ignored; text '
        "columns only",
    ] = field(default_factory=dict)
    page: Page | None = None

    @property
    def results_table(self) -> str:
        """Its Iceberg table, or empty."""
        return next((sink.table for sink in self.sinks if sink.kind == SinkKind.ICEBERG), "")

    @property
    def keys(self) -> list[str]:
        return [*self.group_by, *([WINDOW] if self.window else [])]

    @property
    def distinct(self) -> dict[str, str]:
        """Aggregate -> column whose distinct values it counts."""
        return {
            name: match[1] for name, how in self.aggregates.items() if (match := _DISTINCT.fullmatch(how))
        }


def check(name: str, query: Query, where: str) -> None:
    """Raises ConfigError naming ``where``, the query and the value."""

    def refuse(problem: str) -> ConfigError:
        return ConfigError(f"{where}: query {name}: {problem}")

    if not IDENTIFIER.fullmatch(name):
        raise ConfigError(f"{where}: query {shown(name)}. {IDENTIFIER_FIX}")
    for column in (
        *query.group_by,
        *query.aggregates,
        *query.where,
        *([query.event_time] if query.event_time else []),
    ):
        if not IDENTIFIER.fullmatch(column):
            raise refuse(f"column {shown(column)}. {IDENTIFIER_FIX}")
    results = [*query.keys, *query.aggregates, *([VERSION] if query.aggregates else [])]
    for column in results:
        if results.count(column) > 1:
            raise refuse(f"{column!r} is a column of the result twice. Fix: give one another name")
    for measure, how in query.aggregates.items():
        if how != "count" and not _DISTINCT.fullmatch(how):
            raise refuse(f"measure {measure} = {shown(how)}. Fix: write count, or distinct and a column")
    if query.mode not in list(Mode):
        raise refuse(f"mode {shown(query.mode)}. Fix: write one of {', '.join(Mode)}")
    if (query.mode == Mode.APPEND) == bool(query.aggregates):
        raise refuse(f"mode {query.mode!r}. Fix: write append for a query without measures, and for no other")
    if not query.group_by:
        raise refuse("group_by = []. Fix: name at least one column")
    for column, values in query.where.items():
        if not values:
            raise refuse(f"where {column} = []. Fix: name at least one value")
    if query.page:
        page_spec.check(query.page, query.group_by, query.aggregates, query.results_table, refuse)
    limits.check(query, f"query {name}", where)
    _check_window(query, refuse, f"{where}: query {name}")
    _check_sinks(query, refuse, f"{where}: query {name}")


def check_places(queries: Mapping[str, Query], where: str) -> None:
    """Raises ConfigError if two queries write to one place, which holds the results of the later rebuild."""
    writers: dict[tuple[str, str], str] = {}
    for name, query in queries.items():
        for sink in query.sinks:
            writer = writers.setdefault((sink.connection, sink.name), name)
            if writer != name and sink.kind not in DEBUG_SINKS:
                raise ConfigError(
                    f"{where}: queries {writer} and {name} both write to {sink.name}: a rebuild of one would "
                    "remove the results of the other. Fix: give each a place of its own"
                )


def result_types(name: str, query: Query, columns: Mapping[str, str], where: str) -> dict[str, str]:
    """Column of a result -> type in Spark's DDL; ``columns``: of the stream's table. Raises ConfigError for
    an unknown column, and for one whose type does not fit."""
    for column in (
        *query.group_by,
        *query.where,
        *query.distinct.values(),
        *([query.event_time] if query.event_time else []),
    ):
        if column not in columns:
            raise ConfigError(
                f"{where}: query {name}: {column!r} is no column; there are "
                f"{', '.join(list(columns)[:MAX_NAMED])}. Fix: name one of these"
            )
    for column in query.where:
        if columns[column] != "string":
            raise ConfigError(
                f"{where}: query {name}: where {column!r} is a {columns[column]}. Fix: name a string column"
            )
    if not query.aggregates:
        return dict(columns)
    for column in query.group_by:
        if columns[column] not in KEY_TYPES:
            raise ConfigError(
                f"{where}: query {name}: by {column!r} is a {columns[column]}, whose text form is not "
                f"unique. Fix: group by {', '.join(KEY_TYPES)}"
            )
    kind = query.page.kind if query.page else None
    if kind and columns[kind.column] != "boolean":
        raise ConfigError(
            f"{where}: query {name}: page kind {kind.column!r} is a {columns[kind.column]}. Fix: name a "
            "boolean column"
        )
    return {
        **{column: columns[column] for column in query.group_by},
        **({WINDOW: "timestamp"} if query.window else {}),
        **dict.fromkeys([*query.aggregates, VERSION], "bigint"),
    }


def _check_window(query: Query, refuse: _Refuse, place: str) -> None:
    window = query.window
    if window is None:
        if query.watermark_minutes:
            raise refuse("watermark_minutes without a window: nothing would ever be final. Fix: add a window")
        return
    limits.check(window, "window", place)
    if not query.event_time:
        raise refuse('window without event_time. Fix: name its column, as in event_time = "hittime"')
    if query.mode != Mode.UPDATE:
        raise refuse(
            f'mode {query.mode!r} with a window: its state would never end. Fix: write mode = "update"'
        )
    if query.watermark_minutes < 1:
        raise refuse("watermark_minutes is 0. Fix: with a window write at least 1")
    if not 1 <= window.slide_minutes <= window.size_minutes:
        raise refuse(
            f"slide_minutes is {window.slide_minutes}: moments between two windows would be in none. Fix: "
            f"write 1 to {window.size_minutes}, the minutes of a window"
        )
    if _DAY_MINUTES % window.slide_minutes:
        raise refuse(f"slide_minutes is {window.slide_minutes}: days would differ. Fix: divide a day by it")
    if not 0 <= window.offset_minutes < window.slide_minutes:
        raise refuse(f"offset_minutes is {window.offset_minutes}. Fix: write 0 or more, below slide_minutes")


def _check_sinks(query: Query, refuse: _Refuse, place: str) -> None:
    if not query.sinks:
        raise refuse("sinks = []. Fix: name at least one place for its results")
    for sink in query.sinks:
        if sink.kind not in list(SinkKind):
            raise refuse(f"sink kind {shown(sink.kind)}. Fix: write one of {', '.join(SinkKind)}")
        needs = NEEDS[SinkKind(sink.kind)]
        for key in ("connection", "table", "topic", "partitions", "prefix"):
            if bool(getattr(sink, key)) != (key in needs):
                has = f"needs {key}" if key in needs else f"has no {key}"
                raise refuse(
                    f"a sink of kind {sink.kind} {has}. Fix: give it {', '.join(needs) or 'nothing'}"
                )
        if (sink.kind == SinkKind.FILES) != (query.mode == Mode.APPEND) and sink.kind not in DEBUG_SINKS:
            raise refuse(
                f"mode {query.mode!r} and a sink of kind {sink.kind}. Fix: write append for files, and only "
                "for them"
            )
        if sink.kind == SinkKind.ICEBERG and query.window is None:
            raise refuse(
                "a sink of kind iceberg without a window: a batch rewrites windows that changed. Fix: add one"
            )
        _check_names(query, sink, f"{place}: sink {sink.kind}")
    bases = [sink.connection for sink in query.sinks if sink.connection]
    if len(set(bases)) != len(bases):
        raise refuse(
            f"two sinks in one database ({', '.join(bases)}): its fence knows one batch of a query. Fix: use "
            "a view of the first table, or another query"
        )
    sink_names = [sink.name for sink in query.sinks]
    if len(set(sink_names)) != len(sink_names):
        raise refuse(f"sinks {', '.join(sink_names)}: one of them is there twice. Fix: remove it")


def _check_names(query: Query, sink: Sink, place: str) -> None:
    limits.check(sink, "sink", place, {"partitions": 0})
    if sink.kind == SinkKind.ICEBERG:
        names.check_table(sink.table, place)
    if sink.kind == SinkKind.JDBC:
        for value in (sink.connection, sink.table):
            if not IDENTIFIER.fullmatch(value):
                raise ConfigError(f"{place}: {shown(value)}. {IDENTIFIER_FIX}")
        names.check_database_names(sink.table, [*query.keys, *query.aggregates], place)
    if sink.topic:
        names.check_topic(sink.topic, place)
    if sink.prefix and not _PREFIX.fullmatch(sink.prefix):
        raise ConfigError(
            f"{place}: prefix {shown(sink.prefix)}. Fix: write folders of letters, digits, ., _, = and -, "
            "without / before and with / behind"
        )
