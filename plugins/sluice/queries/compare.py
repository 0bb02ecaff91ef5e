"""Compare sinks' results with those of the lake's rows, and report it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sluice.config.sections.query import Query
from sluice.core.messages import aligned
from sluice.core.queries.result import key_text

# Key text -> aggregates, in the order of the declaration.
Aggregates = Mapping[str, tuple[int, ...]]
MAX_NAMED = 5


@dataclass(frozen=True)
class SinkComparison:
    """``sink_name``: kind and place, as `jdbc isp_hits_windows`. ``lake`` and ``sink``: sum of the first
    aggregate; ``results``: keys in the lake; ``differences``: their number. The first few keys only in the
    lake (``missing``) or sink (``extra``), ``different``."""

    sink_name: str
    results: int
    lake: int
    sink: int
    differences: int
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    different: tuple[str, ...] = ()

    @property
    def is_ok(self) -> bool:
        return self.differences == 0

    def message(self) -> str:
        if self.is_ok:
            return f"{self.sink_name}: {self.results} results, {self.sink} in all, as in the lake"
        named = [
            f"{what} {', '.join(keys)}"
            for what, keys in (
                ("missing", self.missing), ("not in the lake", self.extra), ("different", self.different)
            )
            if keys
        ]  # fmt: skip
        return (
            f"{self.sink_name}: {self.differences} of {self.results} results are not as in the lake "
            f"({self.sink} in all, in the lake {self.lake}): {'; '.join(named)}"
        )


@dataclass(frozen=True)
class QueryComparison:
    """A ``query`` at one ``batch`` (the sinks' number), compared with its stream's table as of
    ``snapshot_id``. ``late``: number of rows that were too late for their windows; ``early``: of rows dated
    ahead; ``compared``: which results, as text; ``sinks``: those that have results by key."""

    query: str
    batch: int
    snapshot_id: int
    late: int
    early: int
    compared: str
    sinks: list[SinkComparison]

    def problems(self) -> list[str]:
        """Each sink that differs from the lake."""
        return [f"query {self.query}, {sink.message()}" for sink in self.sinks if not sink.is_ok]

    def summary(self) -> dict[str, Any]:
        return {
            "batch": self.batch,
            "late": self.late,
            "early": self.early,
            "compared": self.compared,
            "sinks": {
                sink.sink_name: {"results": sink.results, "lake": sink.lake, "sink": sink.sink}
                for sink in self.sinks
            },
        }


# The line of a query whose sinks have no results by key.
NO_SINK = SinkComparison("none with results by key", 0, 0, 0, 0)


def by_key(rows: Iterable[Sequence[Any]], query: Query) -> Aggregates:
    """Rows of keys, aggregates and optional further columns, by key text."""
    split = len(query.keys)
    end = split + len(query.aggregates)
    return {key_text(row[:split]): tuple(row[split:end]) for row in rows}


def compare(name: str, query: Query, lake: Aggregates, sink: Aggregates) -> SinkComparison:
    missing = sorted(lake.keys() - sink.keys())
    extra = sorted(sink.keys() - lake.keys())
    different = sorted(key for key in lake.keys() & sink.keys() if lake[key] != sink[key])
    return SinkComparison(
        sink_name=name,
        results=len(lake),
        lake=_sum(lake),
        sink=_sum(sink),
        differences=len(missing) + len(extra) + len(different),
        missing=tuple(islice(missing, MAX_NAMED)),
        extra=tuple(islice(extra, MAX_NAMED)),
        different=tuple(
            f"{key} ({_named(query, sink[key])}, in the lake {_named(query, lake[key])})"
            for key in islice(different, MAX_NAMED)
        ),
    )


def report(results: Sequence[QueryComparison]) -> str:
    rows = [_line(checked, sink) for checked in results for sink in checked.sinks or [NO_SINK]]
    return aligned(
        [
            *("query", "sink", "compared", "results", "in the lake", "in the sink", "late", "early"),
            "result",
        ],
        rows,
    )


def _line(checked: QueryComparison, found: SinkComparison) -> list[object]:
    is_empty = not found.results and found.is_ok
    result = "nothing to compare" if is_empty else "passed" if found.is_ok else "FAILED"
    counts = (found.results, found.lake, found.sink, checked.late, checked.early)
    return [checked.query, found.sink_name, checked.compared, *counts, result]


def _sum(results: Aggregates) -> int:
    return sum(aggregates[0] for aggregates in results.values())


def _named(query: Query, aggregates: tuple[int, ...]) -> str:
    return " ".join(f"{name} {value}" for name, value in zip(query.aggregates, aggregates, strict=True))
