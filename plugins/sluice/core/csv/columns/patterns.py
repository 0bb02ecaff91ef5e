"""Patterns of dates and times, spelled as Java's; without NumPy, for those who only check a declaration."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from itertools import product

_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|(.)", re.DOTALL)
# Letter -> digits that it may have, by how often it is repeated.
_DIGITS = {letter: {1: (1, 2), 2: (2, 2)} for letter in "MdHhms"}
_DIGITS["y"] = {1: (4, 4), 2: (2, 2), 4: (4, 4)}
_DIGITS["S"] = {count: (count, count) for count in range(1, 10)}
_CLOCKS = ("", "H", "Hm", "Hms", "HmsS", "ahm", "ahms", "ahmsS", "ah")
# Letters of a zone -> what stands between hours and minutes; None without minutes.
_ZONES: dict[str, str | None] = {"X": None, "XX": "", "XXX": ":", "Z": "", "ZZ": "", "ZZZ": "", "ZZZZZ": ":"}
KNOWN = "yyyy, MM, M, MMM, dd, d, HH, H, hh, h, mm, m, ss, s, S, a, XXX, X, Z, [optional], 'text'"
NUMBER, LITERAL, HALF_OF_DAY, MONTH_NAME, ZONE = "number", "literal", "half of day", "month name", "zone"


class UnknownPattern(ValueError):
    """A pattern that has what no piece reads, or no date."""


@dataclass(frozen=True)
class Piece:
    """``kind``: NUMBER and so on. ``name``: the letter of a NUMBER; a LITERAL's character; what stands
    between a ZONE's hours and minutes. ``least``, ``most``: bytes that it has. ``with_z``: a ZONE may be
    ``Z``; ``with_minutes``: it has them."""

    kind: str
    name: str
    least: int
    most: int
    with_z: bool = False
    with_minutes: bool = True


@dataclass(frozen=True)
class Pattern:
    """``pieces``, in their order; ``letters``: what they tell."""

    pieces: tuple[Piece, ...]
    letters: frozenset[str]

    @property
    def has_zone(self) -> bool:
        """Whether it is of an instant."""
        return ZONE in self.letters

    @property
    def has_clock(self) -> bool:
        return bool(self.letters & set("Hh"))

    @property
    def least(self) -> int:
        return sum(piece.least for piece in self.pieces)

    @property
    def most(self) -> int:
        return sum(piece.most for piece in self.pieces)


@cache
def patterns(text: str) -> tuple[Pattern, ...]:
    """What a declared pattern stands for: with and without each optional part. Raises UnknownPattern."""
    parts = re.split(r"(\[[^\[\]]*\])", text)
    choices = [[part[1:-1], ""] if part.startswith("[") else [part] for part in parts]
    found = []
    for chosen in product(*choices):
        try:
            found.append(_pattern("".join(chosen), text))
        except UnknownPattern:
            # Only of the first, which has all parts, must each be known: seconds alone have no fraction.
            if not found:
                raise
    return tuple(found)


def _pattern(text: str, declared: str) -> Pattern:
    pieces, letters = list[Piece](), list[str]()
    for match in _TOKEN.finditer(text):
        letter, run = match[2], match[0]
        if letter is None:
            literal = match[1].replace("''", "'") if match[1] else "'" if run == "''" else match[3]
            if literal is None or literal in "[]{}#":
                raise UnknownPattern(f"{declared!r}: {run!r} stands for nothing. Known are {KNOWN}")
            pieces += [Piece(LITERAL, chr(byte), 1, 1) for byte in literal.encode()]
            continue
        pieces.append(_piece(letter, run, declared))
        letters.append(ZONE if run in _ZONES else letter)
    clock = "".join(sorted(set(letters) & set("HhmsSa"), key="aHhmsS".index))
    if len(set(letters)) < len(letters) or not set("yMd") <= set(letters) or clock not in _CLOCKS:
        raise UnknownPattern(
            f"{declared!r} names no date, a part of it twice, or minutes without hours. Known are {KNOWN}"
        )
    if ZONE in letters and not clock:
        raise UnknownPattern(f"{declared!r} has a zone and no hours")
    return Pattern(tuple(pieces), frozenset(letters))


def _piece(letter: str, run: str, declared: str) -> Piece:
    if run in _ZONES:
        colon = _ZONES[run]
        size, with_z = 3 if colon is None else 5 + len(colon), letter == "X"
        return Piece(ZONE, colon or "", 1 if with_z else size, size, with_z, colon is not None)
    if run == "MMM":
        return Piece(MONTH_NAME, "M", 3, 3)
    if run == "a":
        return Piece(HALF_OF_DAY, "a", 2, 2)
    digits = _DIGITS.get(letter, {}).get(len(run))
    if digits is None:
        raise UnknownPattern(f"{declared!r}: {run!r} stands for nothing. Known are {KNOWN}")
    return Piece(NUMBER, letter, *digits)
