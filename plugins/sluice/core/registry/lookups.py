"""What is made of the schemas of ids: in which order they are asked for, and what is known from then on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from sluice.core.registry.errors import Forbidden

Answer = TypeVar("Answer")
Key = TypeVar("Key")


def in_turn(ids: Sequence[int], ask: Callable[[int], Answer]) -> dict[int, Answer]:
    """The answer for each id, asked in this order; those that the login may not read once more, after all
    others: only beside one that it may read are they judged. Raises what ``ask`` raises."""
    found: dict[int, Answer] = {}
    forbidden: list[int] = []
    for schema_id in ids:
        try:
            found[schema_id] = ask(schema_id)
        except Forbidden:
            forbidden.append(schema_id)
    for schema_id in forbidden:
        found[schema_id] = ask(schema_id)
    return found


class Kept(Generic[Key, Answer]):
    """What is ready for use: at most ``most`` answers, whose sizes are ``most_size`` together at most.

    If there is no place, what was not asked for in the last pieces of records goes first, and of what was
    asked for in one piece the newest: many that come at once do not take the place of what is in use.
    ``forgotten``: told each key that went, before the next piece.
    """

    def __init__(self, most: int, most_size: int, forgotten: Callable[[Key], None] | None = None) -> None:
        self._most, self._most_size, self._forgotten = most, most_size, forgotten
        self._entries: dict[Key, _Entry[Answer]] = {}
        self._size, self._turn, self._number = 0, 0, 0
        self._gone: list[Key] = []

    def __len__(self) -> int:
        return len(self._entries)

    def next_piece(self) -> None:
        """Say that other records come."""
        self._turn += 1
        gone, self._gone = self._gone, []
        if self._forgotten is not None:
            for key in gone:
                if key not in self._entries:
                    self._forgotten(key)

    def get(self, key: Key) -> Answer | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        entry.turn = self._turn
        return entry.answer

    def put(self, key: Key, answer: Answer, size: int) -> Answer:
        """The answer, which is kept from now on if there is a place for it."""
        self._number += 1
        if size > self._most_size:
            self._gone.append(key)
            return answer
        self._entries[key] = _Entry(answer, size, self._turn, self._number)
        self._size += size
        while len(self._entries) > self._most or self._size > self._most_size:
            goes = min(self._entries, key=lambda one: self._entries[one].order)
            self._size -= self._entries.pop(goes).size
            self._gone.append(goes)
        return answer


@dataclass
class _Entry(Generic[Answer]):
    """``turn``: the last piece in which it was asked for; ``number``: the newest has the highest."""

    answer: Answer
    size: int
    turn: int
    number: int

    @property
    def order(self) -> tuple[int, int]:
        return self.turn, -self.number


def kept(known: dict[Key, Answer], key: Key, found: Answer, most: int) -> Answer:
    """``found``, which is known from now on, in the place of the oldest one."""
    if len(known) >= most:
        del known[next(iter(known))]
    known[key] = found
    return found
