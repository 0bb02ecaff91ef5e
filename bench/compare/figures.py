"""Figures of contenders: medians of their turns, ratios of runs in turn with their spread, tables. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

Figures = dict[str, float]
# A contender's name -> its figures, turn by turn.
Turns = Mapping[str, Sequence[Mapping[str, float]]]

SLUICE, PLAIN, TUNED, CONNECT = "sluice", "plain", "plain_tuned", "connect"
# Sluice with ten batches behind it, and with its supervision paused: contenders of Sluice itself.
NEW, PAUSED = f"{SLUICE}_new", f"{SLUICE}_paused"
# Key of `ratio` in the result -> workload, the other contender, figure. Sluice's figure by the other's.
HEADLINES: Mapping[str, tuple[str, str, str]] = {
    "produce_wall": ("one_batch", PLAIN, "produce.seconds"),
    "produce_cpu": ("one_batch", PLAIN, "produce.cpu_seconds"),
    "produce_memory": ("one_batch", PLAIN, "produce.memory_megabytes"),
    "consume_wall": ("one_batch", PLAIN, "consume.seconds"),
    "consume_cpu": ("one_batch", PLAIN, "consume.cpu_seconds"),
    "consume_memory": ("one_batch", PLAIN, "consume.memory_megabytes"),
    "small_batches_calls": ("small_batches", PLAIN, "s3_calls"),
    "small_batches_wall": ("small_batches", PLAIN, "seconds"),
    "others_avro_cpu": ("others_avro", PLAIN, "cpu_seconds"),
    "others_json_cpu": ("others_json", PLAIN, "cpu_seconds"),
    "connect_rows": ("json", CONNECT, "rows_per_second"),
    "connect_cpu": ("json", CONNECT, "cpu_seconds"),
    "growth_calls": ("growth", NEW, "batch.s3_calls"),
    "growth_cpu": ("growth", NEW, "batch.cpu_seconds"),
    "growth_recovery_cpu": ("growth", NEW, "recovery.cpu_seconds"),
    "growth_validate_calls": ("growth", NEW, "validate.s3_calls"),
}
# The same of figures that are a ratio already -> workload, Sluice's figure.
SHARES: Mapping[str, tuple[str, str]] = {
    "validate_cpu_share": ("one_batch", "validate.cpu_share"),
    "revert_cpu_share": ("changes", "revert.cpu_share"),
    "range_read_rate": ("changes", "read.rate"),
}
# The issues' goals: at most, or at least if it is negative.
GOALS: Mapping[str, float] = {
    "produce_wall": 0.8,
    "produce_cpu": 0.8,
    "produce_memory": 1.0,
    "consume_wall": 0.7,
    "consume_cpu": 0.6,
    "consume_memory": 1.0,
    "validate_cpu_share": 0.05,
    "revert_cpu_share": 2.0,
    "range_read_rate": -1.0,
    "small_batches_calls": 0.10,
    "small_batches_wall": 0.7,
    "others_avro_cpu": 0.6,
    "others_json_cpu": 0.6,
    "connect_rows": -2.5,
    "connect_cpu": 0.5,
    "growth_calls": 1.2,
    "growth_cpu": 1.2,
    "growth_recovery_cpu": 1.2,
    "growth_validate_calls": 1.2,
}


@dataclass(frozen=True)
class Ratio:
    """Ratio of runs in turn; ``least`` and ``most`` of any turn."""

    median: float
    least: float
    most: float

    @classmethod
    def of_turns(cls, ours: Sequence[float], theirs: Sequence[float]) -> Ratio | None:
        """Ours by theirs, turn by turn: what the machine did meanwhile, it did to both. None if theirs are 0.

        Raises ValueError for another number of turns.
        """
        each = [a / b for a, b in zip(ours, theirs, strict=True) if b]
        if not each:
            return None
        return cls(*(round(value, 3) for value in (statistics.median(each), min(each), max(each))))


def prefixed(**steps: Figures) -> Figures:
    """The figures of several steps in one: ``<step>.<figure>``."""
    return {f"{step}.{name}": value for step, figures in steps.items() for name, value in figures.items()}


def percentile(values: Sequence[float], percent: float) -> float:
    """Nearest rank: the smallest value that is not exceeded by ``percent`` of all."""
    ordered = sorted(values)
    return ordered[max(math.ceil(percent / 100 * len(ordered)), 1) - 1]


def medians(turns: Sequence[Mapping[str, float]]) -> Figures:
    """Figure by figure, of the turns that have it."""
    names = dict.fromkeys(name for turn in turns for name in turn)
    return {name: round(statistics.median(turn[name] for turn in turns if name in turn), 4) for name in names}


def ratios(turns: Turns) -> dict[str, dict[str, Any]]:
    """Other contender -> figure -> Sluice's by the other's, of figures that both have in every turn."""
    found: dict[str, dict[str, Any]] = {}
    ours = turns.get(SLUICE, ())
    for other, theirs in turns.items():
        if other == SLUICE or not ours or not theirs:
            continue
        shared = [name for name in ours[0] if all(name in turn for turn in (*ours, *theirs))]
        each = {n: Ratio.of_turns([t[n] for t in ours], [t[n] for t in theirs]) for n in shared}
        found[other] = {name: asdict(ratio) for name, ratio in each.items() if ratio is not None}
    return found


def report(turns: Turns, settings: Mapping[str, Any]) -> dict[str, Any]:
    """A workload's part of the result."""
    contenders = {name: {"figures": medians(each), "turns": list(each)} for name, each in turns.items()}
    return {"settings": dict(settings), "contenders": contenders, "ratio": ratios(turns)}


def headlines(workloads: Mapping[str, Mapping[str, Any]]) -> Figures:
    """``ratio`` at the top of the result, of the workloads that were measured."""
    found = Figures()
    for key, (workload, other, figure) in HEADLINES.items():
        ratio = workloads.get(workload, {}).get("ratio", {}).get(other, {}).get(figure)
        if ratio is not None:
            found[key] = ratio["median"]
    for key, (workload, figure) in SHARES.items():
        ours = workloads.get(workload, {}).get("contenders", {}).get(SLUICE, {}).get("figures", {})
        if figure in ours:
            found[key] = ours[figure]
    return found


def is_reached(key: str, value: float) -> bool:
    """Whether a headline is within its goal."""
    goal = GOALS[key]
    return value >= -goal if goal < 0 else value <= goal


def rows(workload: Mapping[str, Any]) -> list[list[str]]:
    """A table: a heading, then a line per figure: each contender's median, each ratio with its spread."""
    contenders = {name: found["figures"] for name, found in workload["contenders"].items()}
    others = list(workload["ratio"])
    lines = [["figure", *contenders, *(f"{SLUICE} / {other}" for other in others)]]
    for name in dict.fromkeys(name for figures in contenders.values() for name in figures):
        values = [number(figures.get(name)) for figures in contenders.values()]
        lines.append([name, *values, *(spread(workload["ratio"][other].get(name)) for other in others)])
    return lines


def number(value: float | None) -> str:
    """With three digits at least, without more decimals than say something."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def spread(ratio: Mapping[str, float] | None) -> str:
    return "" if ratio is None else f"{ratio['median']:.2f} ({ratio['least']:.2f} to {ratio['most']:.2f})"
