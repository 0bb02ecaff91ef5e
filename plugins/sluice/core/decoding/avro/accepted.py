"""The records of a piece while they are decoded, by the schemas that they are written with."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from sluice.core.decoding.avro.columnar.bodies import portions
from sluice.core.decoding.avro.writers import Writer
from sluice.core.decoding.decoder import Malformed
from sluice.core.record_batches.cursor import Bytes, Flags, Ints

_MAX_BYTES = (1 << 31) - 1
# Rows of the reference at once, as Python has them.
_STEP = 1_000


def bodies(values: pa.BinaryArray, margin: int) -> tuple[Bytes, Ints, Ints]:
    """The bytes of all values, with a margin behind them; where each begins and ends. Raises ValueError for
    2^31 bytes or more."""
    if not len(values):
        return np.zeros(margin, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64)
    _, offset_buffer, buffer = values.buffers()
    every = np.frombuffer(offset_buffer, np.int32)[values.offset : values.offset + len(values) + 1]
    offsets = every.astype(np.int64) - int(every[0])
    size = int(offsets[-1])
    if size + margin > _MAX_BYTES:
        raise ValueError(f"{size} bytes in one piece, more than {_MAX_BYTES - margin}")
    data: Bytes = np.zeros(size + margin, np.uint8)
    if size:
        data[:size] = np.frombuffer(buffer, np.uint8, size, int(every[0]))
    return data, offsets[:-1], offsets[1:]


def bodies_at(data: Bytes, starts: Ints, ends: Ints) -> Iterator[bytes]:
    """The bodies at these places."""
    return (data[start:end].tobytes() for start, end in zip(starts.tolist(), ends.tolist(), strict=True))


class Accepted:
    """The accepted records of a piece of ``count``, in arrays whose order is another one, and the ``reasons``
    of the others by their rows. ``kind``: of a record."""

    def __init__(self, count: int, kind: pa.StructType) -> None:
        self._kind, self._arrays, self._count = kind, list[pa.StructArray](), 0
        # The place of each record in the arrays; -1 for none.
        self._places: Ints = np.full(count, -1)
        self.reasons: dict[int, str] = {}

    def decode(self, writer: Writer | str, data: Bytes, rows: Ints, starts: Ints, ends: Ints) -> None:
        """Add records that are written with a schema: their rows, and where their bodies are. ``data`` has
        the writer's margin; ``writer``: the reason if all of them are rejected."""
        if isinstance(writer, str):
            self.reasons.update(dict.fromkeys(rows.tolist(), writer))
            return
        arrays, is_odd = writer.arrays(data, starts, ends)
        self._add(rows[~is_odd], arrays)
        odd = np.flatnonzero(is_odd)
        for portion in portions(ends[odd] - starts[odd], _STEP):
            good, found = [], []
            for place in odd[portion].tolist():
                try:
                    found.append(writer.value(data[starts[place] : ends[place]].tobytes()))
                    good.append(int(rows[place]))
                except Malformed as why:
                    # Most texts are there many times.
                    self.reasons[int(rows[place])] = sys.intern(str(why))
            self._add(np.array(good, np.int64), [pa.array(found, self._kind)])

    def _add(self, rows: Ints, arrays: list[pa.StructArray]) -> None:
        self._places[rows] = self._count + np.arange(len(rows))
        self._count += len(rows)
        self._arrays += [array for array in arrays if len(array)]

    @property
    def is_accepted(self) -> Flags:
        return self._places >= 0

    def array(self) -> pa.StructArray:
        """All records, null for those that are not accepted."""
        if not self._arrays:
            return pa.nulls(len(self._places), self._kind)
        arrays = pa.concat_arrays(self._arrays)
        if self._count == len(self._places) and (np.diff(self._places) == 1).all():
            return arrays
        return arrays.take(pa.array(self._places, mask=self._places < 0))


def texts(reasons: Mapping[int, str], count: int) -> pa.StringArray:
    """Reasons as a column."""
    if not reasons:
        return pa.nulls(count, pa.utf8())
    return pa.array(map(reasons.get, range(count)), pa.utf8(), size=count)
