"""What does history cost? A stream with many small batches behind it against the same stream with 10.

::

    python -m bench.growth [--batches 5000] [--sources 10000] [--loads 2] [--out build/growth.json]

A stack of its own. The consumer publishes batches of 100 records as fast as it can (a second each or more:
two hours for 5,000), and is measured at 10, 100, 300, 1,000 and 5,000. At each point, after its
maintenance, it is killed (-9) twice, so every process measured is of the same age; then 10 batches to warm
up, 20 that are measured, and loads through Airflow. At the end a second stream with 10 batches, and the first
one again: small, large, small, large. ``ratio`` is the mean of the large by the mean of the small ones. Last,
``--sources`` sources are loaded and the consumer is killed again.

CPU seconds are those of the consumer's processes, S3 calls are MinIO's own counts. ``aged`` has the memory of
the process before the kill, and the S3 calls and bytes of the batches that it published: all of them since
the point before, with the manifests that Iceberg merges at every hundredth. Wall times depend on what else
the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.compare.records import Declared, sample_rows
from bench.growing_stream import PARTITIONS, RECORDS_PER_BATCH, WARM_UP, GrowingStream
from local.base import REPO
from local.stack.stack import Stack
from sluice.config import stream as streams

SMALL = 10
POINTS = (SMALL, 100, 300, 1_000, 5_000)
GOAL = 1.2
FAILOVERS = 2
LOADED_ROWS = 200
NAMES = ("growth_large", "growth_small")
# Of a day with a batch every 5 seconds.
DAY_BATCHES = 17_280

Figures = dict[str, float]


def points(batches: int) -> list[int]:
    """The numbers of batches at which a stream that gets ``batches`` is measured, ascending."""
    return [*(point for point in POINTS if point < batches), max(batches, SMALL)]


def mean(figures: Sequence[Mapping[str, float]]) -> Figures:
    """Figure by figure, of those that all have."""
    names = [name for name in figures[0] if all(name in one for one in figures)]
    return {name: round(statistics.fmean(one[name] for one in figures), 4) for name in names}


def least(figures: Sequence[Figures]) -> Figures:
    """Figure by figure, of those that have it: what else happens on the machine adds seconds."""
    names = dict.fromkeys(name for one in figures for name in one)
    return {name: min(one[name] for one in figures if name in one) for name in names}


def ratios(small: Mapping[str, float], large: Mapping[str, float]) -> Figures:
    """Large by small, of the figures that both have and that are not 0 for the small one."""
    return {name: round(large[name] / value, 3) for name, value in small.items() if value and name in large}


def over_goal(ratio: Mapping[str, float], goal: float = GOAL) -> list[str]:
    """The figures that grow by more than ``goal``, the worst first."""
    return sorted((name for name in ratio if ratio[name] > goal), key=lambda name: -ratio[name])


def after_a_day(curve: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Bytes of the metadata file after DAY_BATCHES: on the line through the shortest and the longest history,
    or of the longest if that is a day's."""
    lengths = {point["batches"]: point["metadata_bytes"] for point in curve}
    first, last = min(lengths), max(lengths)
    slope = (lengths[last] - lengths[first]) / (last - first) if last > first else 0.0
    size = lengths[last] + max(slope, 0.0) * max(DAY_BATCHES - last, 0)
    return {"batches": DAY_BATCHES, "metadata_bytes": round(size), "extrapolated_from": [first, last]}


class Measurement:
    """Both streams of a stack; ``result`` is written to ``out`` after every point."""

    def __init__(self, stack: Stack, out: Path, batches: int, loads: int) -> None:
        self.stack, self.out = stack, out
        self.large, self.small = (GrowingStream(stack, name) for name in NAMES)
        self._rows = sample_rows()
        self._loads_each, self._loaded = loads, 0
        self.result: dict[str, Any] = {
            "complete": False,
            "batches": batches,
            "records_per_batch": RECORDS_PER_BATCH,
            "cores": os.cpu_count(),
            "ratio": {},
            "over_goal": [],
            "curve": [],
        }

    def run(self, batches: int, sources: int) -> None:
        smalls, larges = list[Figures](), list[Figures]()
        self.large.begin()
        for point in points(batches):
            grown = self.large.grow(max(point - self.large.batches, 0), _say)
            figures = self.measure(self.large, grown)
            (smalls if point == SMALL else larges).append(figures)
            self.report(smalls, larges)
        self.large.stop_stream()
        self.small.begin()
        smalls.append(self.measure(self.small, self.small.grow(SMALL, _say)))
        self.small.stop_stream()
        self.large.start_stream()
        larges = [*larges, self.measure(self.large)]
        self.report(smalls, larges)
        if sources:
            self.result["sources"] = self.with_sources(sources)
        self.result["complete"] = True
        self.write()

    def measure(self, stream: GrowingStream, grown: Mapping[str, float] | None = None) -> Figures:
        """All figures of a stream as it is now. ``grown``: those of the batches since the point before."""
        point: dict[str, Any] = {"stream": stream.spec.name, "batches": stream.batches}
        point["aged"] = {**stream.memory(), **(grown or {})}
        point["maintenance"] = stream.maintain() if self._loads_each else None
        figures = least([stream.fail_over() for _ in range(FAILOVERS)])
        stream.grow(WARM_UP - 1, _say)
        figures |= stream.steady() | stream.memory() | stream.metadata_sizes()
        point["table"] = stream.table_sizes()
        # Known from here on, whatever becomes of the loads.
        _say(json.dumps(point | figures))
        figures |= least([self._load(stream) for _ in range(self._loads_each)])
        self.result["curve"].append({**point, **figures, "machine_load": round(os.getloadavg()[0], 1)})
        self.result["after_a_day"] = after_a_day(self.result["curve"])
        _say(json.dumps(self.result["curve"][-1]))
        return figures

    def _load(self, stream: GrowingStream) -> Figures:
        first = 1 + self._loaded * LOADED_ROWS
        self._loaded += 1
        return stream.load([self._rows[0], *self._rows[first : first + LOADED_ROWS]])

    def report(self, smalls: Sequence[Figures], larges: Sequence[Figures]) -> None:
        """The ratios of what is known by now."""
        if larges:
            small, large = mean(smalls), mean(larges[-2:] if len(smalls) > 1 else larges[-1:])
            ratio = ratios(small, large)
            self.result |= {"small": small, "large": large, "ratio": ratio, "over_goal": over_goal(ratio)}
        self.write()

    def with_sources(self, count: int) -> dict[str, Any]:
        """Failovers with that many loaded sources behind the large stream."""
        _say(f"loading {count} sources")
        self.large.load_sources(count)
        return {"sources": count, "failovers": [self.large.fail_over() for _ in range(FAILOVERS)]}

    def write(self) -> None:
        self.out.parent.mkdir(exist_ok=True)
        self.out.write_text(json.dumps(self.result, indent=2) + "\n")


def _say(line: str) -> None:
    print(line, flush=True)


def measure(batches: int, sources: int, loads: int, out: Path) -> dict[str, Any]:
    """Measure on a new stack, which is removed. ``loads`` at each point; with 0 Airflow does not run."""
    home = Path(tempfile.mkdtemp(prefix="sluice-bench-"))
    folder = home / "streams"
    folder.mkdir()
    for name in NAMES:
        Declared(name, f"bench-{name}", 1, RECORDS_PER_BATCH, PARTITIONS).write(folder)
    os.environ[streams.VARIABLE] = str(folder)
    stack = Stack(home / "stack", free_ports=True, with_airflow=loads > 0)
    try:
        stack.up()
        measurement = Measurement(stack, out, batches, loads)
        measurement.run(batches, sources)
        return measurement.result
    finally:
        for log in stack.home.logs.glob("stream-growth_*.log"):
            print(log.read_text(errors="replace")[-3000:], file=sys.stderr)
        stack.destroy()
        shutil.rmtree(home, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batches", type=int, default=5_000)
    parser.add_argument("--sources", type=int, default=10_000)
    parser.add_argument("--loads", type=int, default=2, help="at each point; 0: without Airflow")
    parser.add_argument("--out", type=Path, default=REPO / "build" / "growth.json")
    options = parser.parse_args()
    result = measure(options.batches, options.sources, options.loads, options.out)
    print(json.dumps({name: result[name] for name in ("ratio", "over_goal")}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
