"""Texts as numbers: exactly, or not at all.

A number is digits with at most one point (``5``, ``.5``, ``-0.0``, ``+5``, ``00012``, ``1.0``); for a double
also with an exponent. No type letters, hexadecimals, group separators, infinities or other scripts' digits. A
whole number may be written with a point and zeros, as ``1.0``, and not with an exponent: a spreadsheet that
writes one has rounded.
"""

from __future__ import annotations

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
    wrong = np.zeros(len(texts), bool)
    try:
        # Arrow's own grammar is a part of ours, but for infinities and what is no number.
        numbers = pc.cast(texts, kind)
    except pa.ArrowInvalid:
        texts = trimmed(texts)
        wrong = ~mask(pc.match_substring_regex(texts, _NUMBER), null=True)
        numbers = pc.cast(keep(texts, ~wrong), kind)
    values = numbers.fill_null(1).to_numpy()
    wrong |= ~np.isfinite(values)
    zeros = np.flatnonzero((values == 0) & (np.diff(offsets(texts)) > _ZERO_CHARACTERS))
    if len(zeros):
        lost = mask(pc.match_substring_regex(texts.take(pa.array(zeros)), r"^[^eE]*[1-9]"))
        wrong[zeros[lost]] = True
    return numbers, wrong


def integers(texts: pa.StringArray, bits: int) -> tuple[pa.Array, Mask]:
    """Whole numbers of so many bits."""
    kind, (low, high) = (pa.int32() if bits == 32 else pa.int64()), (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    data = texts_data(texts)
    # Arrow takes hexadecimals.
    if b"x" not in data and b"X" not in data:
        try:
            return pc.cast(texts, kind), np.zeros(len(texts), bool)
        except pa.ArrowInvalid:
            pass
    numbers, wrong = floats(texts, pa.float64())
    texts = trimmed(texts)
    given, values = valid(texts), numbers.fill_null(0).to_numpy()
    if b"e" in data or b"E" in data:
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
    texts = trimmed(texts)
    whole, part = f"0*[0-9]{{0,{precision - scale}}}", f"[0-9]{{0,{scale}}}0*"
    # At least one digit.
    form = rf"^[-+]?({whole}\.{part}|{whole})$"
    wrong = ~mask(pc.match_substring_regex(texts, form), null=True)
    wrong |= ~mask(pc.match_substring_regex(texts, "[0-9]"), null=True)
    kept = keep(texts, ~wrong)
    try:
        return pc.cast(kept, kind), wrong
    except pa.ArrowInvalid:
        # More zeros than Arrow takes.
        found = [None if text is None else Decimal(text) for text in kept.to_pylist()]
        return pa.array([None if one is None else _short(one, scale) for one in found], kind), wrong


def _short(number: Decimal, scale: int) -> Decimal:
    import decimal

    with decimal.localcontext() as context:
        context.prec = len(number.as_tuple().digits) + scale + 40
        return number.quantize(Decimal(1).scaleb(-scale))
