"""Integers counted at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from sluice.core.offsets.counts import Counted, Counts

Key = TypeVar("Key", int, str)


def counted(values: Iterable[int]) -> Counted:
    found = Counted()
    found.add(list(values))
    return found


def counts(values: Mapping[Key, Iterable[int]]) -> Counts[Key]:
    found = Counts[Key]()
    for key, numbers in values.items():
        found.at(key).add(list(numbers))
    return found


def listed(found: Counts[Key]) -> dict[Key, list[int]]:
    """Key -> all integers: those that are there more than once twice."""
    return {
        key: sorted(
            number
            for part in (found[key].present, found[key].repeated)
            for start, until in part.ranges()
            for number in range(start, until)
        )
        for key in found
    }
