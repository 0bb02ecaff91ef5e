"""What a bounded run of a feed's producer says of itself, in its last line of stdout."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

COUNTS = ("events", "sent", "known", "canary", "poison")
SHOWN = 300


@dataclass(frozen=True)
class Fed:
    """One run. ``[begin, ends)``: the topic's offsets before its first and behind its last event.

    ``events``: distinct ones that it handled, ``sent`` by itself, ``known`` to the topic before; ``canary``:
    those that are nobody's; ``poison``: sent, and to be quarantined. ``adopted``: another producer was at
    work, and this run only counted what came.
    """

    begin: dict[int, int]
    ends: dict[int, int]
    events: int
    sent: int
    known: int
    canary: int
    poison: int
    adopted: bool
    seconds: float

    def counts(self) -> dict[str, Any]:
        """For the ledger and the task's return value."""
        return {name: getattr(self, name) for name in (*COUNTS, "adopted", "seconds")}


def parse(line: str | None) -> Fed:
    """The run that the line tells of. Raises ValueError saying what came instead, and what is wrong with it.

    Strict, because it says which offsets a load has to prove: every key, of its type; no partition that ends
    before it begins, or begins and never ends; no more events sent than there are offsets.
    """
    if line is None:
        raise ValueError("it wrote no result")
    try:
        data = json.loads(line)
        if not isinstance(data, dict):
            raise ValueError(f"a {type(data).__name__}, and no object")
        fed = Fed(
            begin=_offsets(data, "begin"),
            ends=_offsets(data, "ends"),
            adopted=_flag(data, "adopted"),
            seconds=_seconds(data, "seconds"),
            **{name: _count(data, name) for name in COUNTS},
        )
        _check(fed)
    except ValueError as error:
        shown = line if len(line) <= SHOWN else f"{line[:SHOWN]}…"
        raise ValueError(f"its result is wrong, {error}: {shown!r}") from error
    return fed


def _check(fed: Fed) -> None:
    if not fed.ends or set(fed.begin) - set(fed.ends):
        raise ValueError(f"it begins in partitions {sorted(fed.begin)} and ends in {sorted(fed.ends)}")
    width = 0
    for partition, end in fed.ends.items():
        # A partition that was added meanwhile begins with its first offset.
        begin = fed.begin.get(partition, 0)
        if end < begin:
            raise ValueError(f"partition {partition} ends at {end}, before its begin {begin}")
        width += end - begin
    if fed.sent > width:
        raise ValueError(f"{fed.sent} events were sent, between offsets that hold {width}")


def _value(data: dict[str, Any], key: str) -> Any:
    if key not in data:
        raise ValueError(f"{key} is missing")
    return data[key]


def _count(data: dict[str, Any], key: str) -> int:
    value = _value(data, key)
    # bool is an int to Python.
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{key} is {value!r}, and no count")
    return value


def _flag(data: dict[str, Any], key: str) -> bool:
    value = _value(data, key)
    if not isinstance(value, bool):
        raise ValueError(f"{key} is {value!r}, neither true nor false")
    return value


def _seconds(data: dict[str, Any], key: str) -> float:
    value = _value(data, key)
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
        raise ValueError(f"{key} is {value!r}, and no duration")
    return float(value)


def _offsets(data: dict[str, Any], key: str) -> dict[int, int]:
    value = _value(data, key)
    if not isinstance(value, dict):
        raise ValueError(f"{key} is {value!r}, and no object")
    # int() takes more than digits: blanks, signs, underscores.
    odd = [partition for partition in value if not (partition.isascii() and partition.isdigit())]
    if odd:
        raise ValueError(f"{key} has {odd[0]!r} for a partition")
    return {int(partition): _count(value, partition) for partition in value}
