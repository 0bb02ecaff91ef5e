"""Columns as Avro bodies (Avro specification, "Binary Encoding"), a field at a time over all rows.

What has few bytes (numbers, branches of unions, lengths) is written into a matrix, with a mask of the bytes
that each row has; of it, row by row, those are taken. Texts are put between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sluice.core.csv.columns import kinds
from sluice.core.csv.columns.kinds import Kind
from sluice.core.csv.columns.numbers import offsets, valid
from sluice.core.csv.records.quotes import Mask

Bytes = NDArray[np.uint8]


class _Bodies:
    """Bodies that grow by a field. ``count``: their number."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._matrices: list[tuple[Bytes, Mask | None]] = []
        self._parts: list[pa.BinaryArray] = []

    def add(self, matrix: Bytes, chosen: Mask | None = None) -> None:
        """Bytes of each row; ``chosen``: those that it has, None for all."""
        self._matrices.append((matrix, chosen))

    def add_texts(self, texts: pa.Array) -> None:
        """No nulls."""
        self._flush()
        self._parts.append(texts.cast(pa.binary()))

    def _flush(self) -> None:
        if not self._matrices:
            return
        wide = np.concatenate([matrix for matrix, _ in self._matrices], axis=1)
        chosen = np.concatenate(
            [np.ones(m.shape, bool) if mask is None else mask for m, mask in self._matrices], axis=1
        )
        self._matrices = []
        ends = np.zeros(self.count + 1, np.int32)
        np.cumsum(np.count_nonzero(chosen, axis=1), out=ends[1:])
        data = wide[chosen]
        self._parts.append(
            pa.BinaryArray.from_buffers(
                pa.binary(), self.count, [None, pa.py_buffer(ends), pa.py_buffer(data)]
            )
        )

    def done(self) -> pa.BinaryArray:
        self._flush()
        if not self._parts:
            return pa.array([b""] * self.count, pa.binary())
        if len(self._parts) == 1:
            return self._parts[0]
        return pc.binary_join_element_wise(*self._parts, pa.scalar(b"", pa.binary()))


@dataclass(frozen=True)
class Extra:
    """Columns that are entries of a map: their names, which are keys, and texts, of which nulls are no
    entry."""

    names: tuple[str, ...]
    texts: tuple[pa.StringArray, ...]


def encode(columns: Sequence[pa.Array | Extra], fields: Sequence[Kind], count: int) -> pa.BinaryArray:
    """The bodies of ``count`` rows. A null of a field that is required is written as a zero: such rows are
    rejected, and their bodies are not sent."""
    bodies = _Bodies(count)
    for column, kind in zip(columns, fields, strict=True):
        is_map = isinstance(column, Extra)
        given = _filled(column, count) if is_map else valid(column)
        if kind.null_branch is not None:
            branches = np.where(given, 2 * (1 - kind.null_branch), 2 * kind.null_branch)
            bodies.add(branches.astype(np.uint8)[:, None])
        if not given.any() and kind.null_branch is not None:
            continue
        # A required field has a value in each row.
        has = None if given.all() or kind.null_branch is None else given[:, None]
        if is_map:
            _write_map(bodies, column, has)
        else:
            _write(bodies, column, kind, has)
    return bodies.done()


def _filled(column: Extra, count: int) -> Mask:
    found = np.zeros(count, bool)
    for texts in column.texts:
        found |= valid(texts)
    return found


def _write(bodies: _Bodies, column: pa.Array, kind: Kind, has: Mask | None) -> None:
    if kind.name == kinds.TEXT:
        texts = column.fill_null("") if column.null_count else column
        _add(bodies, *_varints(np.diff(offsets(texts))), has)
        bodies.add_texts(texts)
    elif kind.name in (kinds.DOUBLE, kinds.FLOAT):
        values = column.fill_null(0).to_numpy()
        size = values.dtype.itemsize
        matrix = np.ascontiguousarray(values).view(np.uint8).reshape(bodies.count, size)
        _add(bodies, matrix, None, has)
    elif kind.name == kinds.BOOLEAN:
        values = column.fill_null(False).to_numpy(zero_copy_only=False)
        _add(bodies, values.astype(np.uint8)[:, None], None, has)
    elif kind.name == kinds.DECIMAL:
        _write_decimals(bodies, column, has)
    else:
        _add(bodies, *_varints(column.fill_null(0).to_numpy().astype(np.int64)), has)


def _add(bodies: _Bodies, matrix: Bytes, chosen: Mask | None, has: Mask | None) -> None:
    if has is not None:
        chosen = np.broadcast_to(has, matrix.shape) if chosen is None else chosen & has
    bodies.add(matrix, chosen)


def _varints(values: NDArray[np.int64]) -> tuple[Bytes, Mask | None]:
    """Zigzag, then seven bits a byte."""
    bits = ((values << 1) ^ (values >> 63)).view(np.uint64)
    width = max((int(bits.max()).bit_length() + 6) // 7, 1) if len(bits) else 1
    matrix = np.empty((len(bits), width), np.uint8)
    more: Any = None
    chosen = np.ones((len(bits), width), bool) if width > 1 else None
    for column in range(width):
        rest = bits >> np.uint64(7 * column + 7) if column < width - 1 else np.zeros(1, np.uint64)
        low = (bits >> np.uint64(7 * column)).astype(np.uint8) & np.uint8(0x7F)
        if chosen is not None and column:
            chosen[:, column] = more
        more = rest > 0
        matrix[:, column] = low | (more.astype(np.uint8) << 7)
    return matrix, chosen


def _write_decimals(bodies: _Bodies, column: pa.Array, has: Mask | None) -> None:
    """Two's complement, big-endian, as few bytes as tell its sign."""
    column = column.fill_null(pa.scalar(Decimal(0), column.type)) if column.null_count else column
    little = np.frombuffer(column.buffers()[1], np.uint8)[column.offset * 16 :][: len(column) * 16]
    big = little.reshape(len(column), 16)[:, ::-1]
    # A byte is only a sign if the one behind it has the same.
    sign = np.where(big[:, :1] >= 128, 255, 0)
    is_sign = (big[:, :-1] == sign) & ((big[:, 1:] >= 128) == (sign == 255))
    left_out = np.logical_and.accumulate(is_sign, axis=1)
    chosen = np.ones(big.shape, bool)
    chosen[:, :-1] = ~left_out
    _add(bodies, *_varints(np.count_nonzero(chosen, axis=1).astype(np.int64)), has)
    _add(bodies, np.ascontiguousarray(big), chosen, has)


def _write_map(bodies: _Bodies, column: Extra, has: Mask | None) -> None:
    """One block of entries, then an empty one."""
    filled = [valid(texts) for texts in column.texts]
    counts: NDArray[np.int64] = np.zeros(bodies.count, np.int64)
    for one in filled:
        counts += one
    has_entries = (counts > 0)[:, None]
    _add(bodies, *_varints(counts), has if has is None else has & has_entries)
    for name, texts, given in zip(column.names, column.texts, filled, strict=True):
        key = np.frombuffer(name.encode(), np.uint8)
        size, _ = _varints(np.array([len(key)]))
        entry = np.concatenate([size[0], key])
        _add(bodies, np.broadcast_to(entry, (bodies.count, len(entry))), None, given[:, None])
        texts = texts.fill_null("")
        _add(bodies, *_varints(np.diff(offsets(texts))), given[:, None])
        bodies.add_texts(texts)
    # A map without entries is its end alone, which is its count.
    _add(bodies, np.zeros((bodies.count, 1), np.uint8), None, has_entries)
