"""Texts as numbers: exactly, or not at all.

A number is digits with at most one point (``5``, ``.5``, ``-0.0``, ``+5``, ``00012``, ``1.0``); for a double
also with an exponent. No type letters, hexadecimals, group separators, infinities or other scripts' digits. A
whole number may be written with a point and zeros, as ``1.0``, and not with an exponent: a spreadsheet that
writes one has rounded. Texts come without blanks around; nulls stay nulls.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.core.csv.records.quotes import Ints, Mask

_NUMBER = r"^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?$"
# Each number of so many characters has a double of its own, and whole ones are equal to it.
_EXACT_CHARACTERS = 15
# A text of a zero, "0.00"; a longer one may have been a number too small.
_ZERO_CHARACTERS = 4
# From a text with more digits than a decimal128 has, Arrow makes another number, or it refuses it.
_DECIMAL_CHARACTERS = 38
# Texts that tell how those of a column look.
_SAMPLE = 100


def texts_data(texts: pa.StringArray) -> bytes:
    data = texts.buffers()[2]
    start, end = offsets(texts)[[0, -1]]
    return b"" if data is None else data.slice(start, end - start).to_pybytes()


def offsets(texts: pa.StringArray) -> Ints:
    found: Any = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return found.astype(np.int64)


def mask(array: pa.BooleanArray, null: bool = False) -> Mask:
    return np.asarray(array.fill_null(null).to_numpy(zero_copy_only=False), bool)


def valid(array: pa.Array) -> Mask:
    return mask(array.is_valid()) if array.null_count else np.ones(len(array), bool)


def keep(texts: pa.StringArray, kept: Mask) -> pa.StringArray:
    return pc.if_else(pa.array(kept), texts, pa.scalar(None, pa.string()))


def trimmed(texts: pa.StringArray) -> pa.StringArray:
    """Without blanks around; null without anything else."""
    found = pc.utf8_trim(texts, " \t")
    return pc.if_else(pc.equal(found, ""), pa.scalar(None, pa.string()), found)


def floats(texts: pa.StringArray, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    """The nearest numbers of ``kind``, float or double, and which texts are none: also beyond its range at
    either end."""
    # Arrow's own grammar is a part of ours, but for infinities and what is no number.
    numbers, wrong = _convert(
        texts, b"0123456789.-eE", lambda some: pc.cast(some, kind), lambda some: _odd_floats(some, kind)
    )
    values = numbers.fill_null(1).to_numpy()
    wrong |= ~np.isfinite(values)
    zeros = np.flatnonzero((values == 0) & (np.diff(offsets(texts)) > _ZERO_CHARACTERS))
    if len(zeros):
        lost = mask(pc.match_substring_regex(texts.take(pa.array(zeros)), r"^[^eE]*[1-9]"))
        wrong[zeros[lost]] = True
    return numbers, wrong


def _odd_floats(texts: pa.StringArray, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    wrong = ~mask(pc.match_substring_regex(texts, _NUMBER), null=True)
    return pc.cast(keep(texts, ~wrong), kind), wrong


def integers(texts: pa.StringArray, bits: int) -> tuple[pa.Array, Mask]:
    """Whole numbers of so many bits."""
    kind = pa.int32() if bits == 32 else pa.int64()
    # Arrow takes hexadecimals too.
    return _convert(
        texts, b"0123456789-", lambda some: pc.cast(some, kind), lambda some: _odd_integers(some, kind), b"xX"
    )


def _odd_integers(texts: pa.StringArray, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    low, high = -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1
    numbers, wrong = floats(texts, pa.float64())
    given, values = valid(texts), numbers.fill_null(0).to_numpy()
    if _has(texts, b"eE"):
        wrong |= mask(pc.match_substring_regex(texts, "[eE]"))
    values = np.where(given & ~wrong, values, 0)
    is_short = np.diff(offsets(texts)) <= _EXACT_CHARACTERS
    wrong |= is_short & ((values != np.floor(values)) | (values < low) | (values > high))
    found = np.where(is_short & ~wrong, values, 0).astype(np.int64)
    for number in np.flatnonzero(given & ~wrong & ~is_short).tolist():
        exact = Decimal(texts[number].as_py())
        if exact == exact.to_integral_value() and low <= exact <= high:
            found[number] = int(exact)
        else:
            wrong[number] = True
    return pa.array(found, pa.int64(), mask=~given).cast(kind), wrong


def decimals(texts: pa.StringArray, precision: int, scale: int) -> tuple[pa.Array, Mask]:
    """Numbers of ``precision`` digits, ``scale`` of them behind the point; zeros around them are no
    digits."""
    kind = pa.decimal128(precision, scale)
    # Arrow refuses a number that does not fit, and takes exponents too.
    return _convert(
        texts,
        b"0123456789.-",
        lambda some: pc.cast(some, kind),
        lambda some: _odd_decimals(some, kind),
        b"eE",
        _DECIMAL_CHARACTERS,
    )


def _odd_decimals(texts: pa.StringArray, kind: pa.Decimal128Type) -> tuple[pa.Array, Mask]:
    whole, part = f"0*[0-9]{{0,{kind.precision - kind.scale}}}", f"[0-9]{{0,{kind.scale}}}0*"
    # At least one digit.
    form = rf"^[-+]?({whole}\.{part}|{whole})$"
    wrong = ~mask(pc.match_substring_regex(texts, form), null=True)
    wrong |= ~mask(pc.match_substring_regex(texts, "[0-9]"), null=True)
    kept = keep(texts, ~wrong)
    if _longest(kept) <= _DECIMAL_CHARACTERS:
        return pc.cast(kept, kind), wrong
    found = [None if text is None else Decimal(text) for text in kept.to_pylist()]
    return pa.array([None if one is None else _short(one, kind.scale) for one in found], kind), wrong


def _short(number: Decimal, scale: int) -> Decimal:
    import decimal

    with decimal.localcontext() as context:
        context.prec = len(number.as_tuple().digits) + scale + 40
        return number.quantize(Decimal(1).scaleb(-scale))


def _convert(
    texts: pa.StringArray,
    usual: bytes,
    cast: Callable[[pa.StringArray], pa.Array],
    convert_odd: Callable[[pa.StringArray], tuple[pa.Array, Mask]],
    others: bytes = b"",
    longest: int = 0,
) -> tuple[pa.Array, Mask]:
    """Values of all texts by Arrow's ``cast``, if it takes them. Otherwise those with other bytes than the
    ``usual`` ones, or longer than ``longest`` bytes (0: no limit), by ``convert_odd``, which is exact for
    each text and slow; and all, if it takes not even the rest.

    ``others``: bytes of which Arrow makes numbers that are none here.
    """
    is_long = np.diff(offsets(texts)) > longest if longest else np.zeros(len(texts), bool)
    # A cast that fails writes an error for each text, which takes ten times as long as its value.
    is_usual = not texts_data(texts[:_SAMPLE]).translate(None, usual)
    if is_usual and not _has(texts, others) and not is_long.any():
        try:
            return cast(texts), np.zeros(len(texts), bool)
        except pa.ArrowInvalid:
            pass
    is_odd = is_long | _has_others(texts, usual)
    rows = np.flatnonzero(is_odd)
    if 0 < len(rows) < len(texts):
        try:
            values = cast(keep(texts, ~is_odd))
        except pa.ArrowInvalid:
            pass
        else:
            wrong = np.zeros(len(texts), bool)
            odd, wrong[rows] = convert_odd(texts.take(pa.array(rows)))
            return pc.replace_with_mask(values, pa.array(is_odd), odd), wrong
    return convert_odd(texts)


def _has(texts: pa.StringArray, some: bytes) -> bool:
    return bool(some) and any(byte in data for data in [texts_data(texts)] for byte in some)


def _has_others(texts: pa.StringArray, usual: bytes) -> Mask:
    """Which texts have other bytes than these."""
    is_other = np.ones(256, bool)
    is_other[list(usual)] = False
    ends = offsets(texts)
    data = np.frombuffer(texts_data(texts), np.uint8)
    rows = np.searchsorted(ends, np.flatnonzero(is_other[data]) + ends[0], side="right") - 1
    found = np.zeros(len(texts), bool)
    found[rows] = True
    return found


def _longest(texts: pa.StringArray) -> int:
    return int(pc.max(pc.binary_length(texts)).as_py() or 0)
