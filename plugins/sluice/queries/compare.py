"""Compare a sink's results with those of the lake's rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from sluice.config.query import Query

Results = Mapping[str, tuple[int, ...]]
MAX_NAMED = 5


@dataclass(frozen=True)
class SinkReconciliation:
    """``lake`` and ``sink``: sum of the first aggregate; ``results``: keys in the lake; ``differences``:
    their number. The first few keys only in the lake (``missing``) or sink (``extra``), ``different``."""

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


def compare(name: str, query: Query, lake: Results, sink: Results) -> SinkReconciliation:
    """``lake`` and ``sink``: text of a key -> aggregates in the declared order."""
    missing = sorted(lake.keys() - sink.keys())
    extra = sorted(sink.keys() - lake.keys())
    different = sorted(key for key in lake.keys() & sink.keys() if lake[key] != sink[key])
    return SinkReconciliation(
        sink_name=name,
        results=len(lake),
        lake=_sum(lake),
        sink=_sum(sink),
        differences=len(missing) + len(extra) + len(different),
        missing=tuple(islice(missing, MAX_NAMED)),
        extra=tuple(islice(extra, MAX_NAMED)),
        different=tuple(
            f"{key} ({_told(query, sink[key])}, in the lake {_told(query, lake[key])})"
            for key in islice(different, MAX_NAMED)
        ),
    )


def _sum(results: Results) -> int:
    return sum(aggregates[0] for aggregates in results.values())


def _told(query: Query, aggregates: tuple[int, ...]) -> str:
    return " ".join(f"{name} {value}" for name, value in zip(query.aggregates, aggregates, strict=True))
