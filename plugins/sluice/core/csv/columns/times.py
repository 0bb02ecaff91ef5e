"""Texts as dates and times.

The pieces of a pattern each read all texts at once. As long as all pieces before it have one width, a piece
is at one position of all texts; behind one of one or two digits, at a position of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sluice.core.csv.columns import patterns
from sluice.core.csv.columns.numbers import offsets, valid
from sluice.core.csv.columns.patterns import Pattern, Piece
from sluice.core.csv.records.quotes import Ints, Mask

Place = int | Ints

_MONTHS = np.arange("0001-01", "10000-02", dtype="datetime64[M]").astype("datetime64[D]").astype(np.int64)
DAY = 86_400_000_000
_FIRST, _LAST = int(_MONTHS[0]) * DAY, int(_MONTHS[-2] + 31) * DAY
_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


class Chars:
    """Texts as a matrix of bytes, with zeros behind each."""

    def __init__(self, matrix: NDArray[np.uint8], lengths: Ints) -> None:
        self.matrix, self.lengths = matrix, lengths
        self._rows = np.arange(len(matrix))

    def at(self, place: Place) -> NDArray[np.uint8]:
        if isinstance(place, int):
            return self.matrix[:, place]
        return self.matrix[self._rows, np.minimum(place, self.matrix.shape[1] - 1)]


Values = dict[str, NDArray[np.int64]]
# Reads from a place on: which texts are right, and the place behind it.
Read = Callable[[Chars, Place, Values], tuple[Mask, Place]]


def _number(name: str, least: int, most: int) -> Read:
    def read(chars: Chars, place: Place, values: Values) -> tuple[Mask, Place]:
        value, right = np.zeros(len(chars.matrix), np.int64), np.ones(len(chars.matrix), bool)
        for count in range(most):
            digit = chars.at(place) - np.uint8(ord("0"))
            is_digit = digit <= 9
            if count < least:
                right &= is_digit
                value = value * 10 + digit
                place = place + 1
            else:
                value = np.where(is_digit, value * 10 + digit, value)
                place = place + is_digit.astype(np.int64)
        if name == "y" and most == 2:
            value += 2000
        if name == "S":
            # Microseconds; what is beyond them must be zeros.
            value *= 10 ** (9 - most)
            right &= value % 1000 == 0
            value //= 1000
        values[name] = value
        return right, place

    return read


def _literal(char: int) -> Read:
    def read(chars: Chars, place: Place, values: Values) -> tuple[Mask, Place]:
        return chars.at(place) == char, place + 1

    return read


def _lower(chars: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return chars | np.uint8(0x20)


def _half_of_day() -> Read:
    def read(chars: Chars, place: Place, values: Values) -> tuple[Mask, Place]:
        half = _lower(chars.at(place))
        values["a"] = (half == ord("p")).astype(np.int64)
        right = ((half == ord("a")) | (half == ord("p"))) & (_lower(chars.at(place + 1)) == ord("m"))
        return right, place + 2

    return read


def _month_name() -> Read:
    def read(chars: Chars, place: Place, values: Values) -> tuple[Mask, Place]:
        letters = [_lower(chars.at(place + n)).astype(np.int64) for n in range(3)]
        spelled = letters[0] << 16 | letters[1] << 8 | letters[2]
        value = np.zeros(len(chars.matrix), np.int64)
        for number, name in enumerate(_NAMES, 1):
            value[spelled == int.from_bytes(name.encode())] = number
        values["M"] = value
        return value > 0, place + 3

    return read


def _zone(colon: str, with_minutes: bool, with_z: bool) -> Read:
    """``Z`` if it may be, or a sign with hours, and minutes."""
    digits = (["h1", "h2"], ["m1", "m2"])

    def read(chars: Chars, place: Place, values: Values) -> tuple[Mask, Place]:
        first = chars.at(place)
        is_z = (first == ord("Z")) & with_z
        right, behind = (first == ord("+")) | (first == ord("-")), place + 1
        numbers = list[NDArray[np.int64]]()
        for part in digits[: 1 + with_minutes]:
            if numbers and colon:
                right &= chars.at(behind) == ord(colon)
                behind = behind + 1
            number = np.zeros(len(first), np.int64)
            for _ in part:
                digit = chars.at(behind) - np.uint8(ord("0"))
                right &= digit <= 9
                number, behind = number * 10 + digit, behind + 1
            numbers.append(number)
        hours, minutes = numbers[0], numbers[1] if with_minutes else np.zeros(len(first), np.int64)
        # Java's zones end there too.
        right &= (hours * 60 + minutes <= 18 * 60) & (minutes < 60)
        sign = np.where(first == ord("-"), -1, 1)
        values["zone"] = np.where(is_z, 0, sign * (hours * 60 + minutes))
        if not with_z:
            return right, behind
        return right | is_z, np.where(is_z, place + 1, behind)

    return read


@cache
def _reader(piece: Piece) -> Read:
    if piece.kind == patterns.NUMBER:
        return _number(piece.name, piece.least, piece.most)
    if piece.kind == patterns.MONTH_NAME:
        return _month_name()
    if piece.kind == patterns.HALF_OF_DAY:
        return _half_of_day()
    if piece.kind == patterns.ZONE:
        return _zone(piece.name, piece.with_minutes, piece.with_z)
    return _literal(ord(piece.name))


def _parse(pattern: Pattern, chars: Chars) -> tuple[Mask, Ints]:
    """Which texts are of a pattern, and their microseconds since 1970."""
    count = len(chars.matrix)
    none = np.zeros(count, np.int64)
    values: Values = dict.fromkeys("HhmsSa", none) | {"zone": none}
    right = np.ones(count, bool)
    place: Place = 0
    for piece in pattern.pieces:
        good, place = _reader(piece)(chars, place, values)
        right &= good
    right &= chars.lengths == place
    month, hour, day = values["M"], values["H"], values["d"]
    right &= (values["y"] >= 1) & (values["y"] <= 9999) & (month >= 1) & (month <= 12)
    index = np.where(right, (values["y"] - 1) * 12 + month - 1, 0)
    right &= (day >= 1) & (day <= _MONTHS[index + 1] - _MONTHS[index])
    right &= (hour < 24) & (values["m"] < 60) & (values["s"] < 60)
    if "h" in pattern.letters:
        right &= (values["h"] >= 1) & (values["h"] <= 12)
        hour = values["h"] % 12 + 12 * values["a"]
    minutes = ((_MONTHS[index] + day - 1) * 24 + hour) * 60 + values["m"] - values["zone"]
    found = (minutes * 60 + values["s"]) * 1_000_000 + values["S"]
    return right & (found >= _FIRST) & (found < _LAST), found


def timestamps(texts: pa.StringArray, formats: Sequence[Pattern]) -> tuple[Ints, Mask]:
    """Microseconds since 1970 by the first pattern that a text is of, and which texts are of none. Those of
    nulls are 0. Blanks around a text are left out."""
    found, left = _by_patterns(texts, formats)
    rest = np.flatnonzero(left)
    if len(rest):
        shorter = pc.utf8_trim(texts.take(pa.array(rest)), " \t")
        more, still = _by_patterns(shorter, formats)
        found[rest], left[rest] = more, still
    return found, left


def _by_patterns(texts: pa.StringArray, formats: Sequence[Pattern]) -> tuple[Ints, Mask]:
    starts, data = offsets(texts), texts.buffers()[2]
    bytes_ = np.frombuffer(data, np.uint8) if data else np.zeros(1, np.uint8)
    lengths, left = np.diff(starts), valid(texts).copy()
    found = np.zeros(len(texts), np.int64)
    for pattern in formats:
        rows = np.flatnonzero(left & (lengths >= pattern.least) & (lengths <= pattern.most))
        if not len(rows):
            continue
        right, values = _parse(pattern, _chars(bytes_, starts, rows, lengths[rows], pattern))
        found[rows[right]] = values[right]
        left[rows[right]] = False
    return found, left


def _chars(data: NDArray[np.uint8], starts: Ints, rows: Ints, lengths: Ints, pattern: Pattern) -> Chars:
    if pattern.least == pattern.most and len(rows) == len(starts) - 1:
        return Chars(data[starts[0] : starts[-1]].reshape(len(rows), pattern.most), lengths)
    columns = np.arange(pattern.most + 1)
    at = np.minimum(starts[rows][:, None] + columns, len(data) - 1)
    return Chars(np.where(columns < lengths[:, None], data[at], 0).astype(np.uint8), lengths)
