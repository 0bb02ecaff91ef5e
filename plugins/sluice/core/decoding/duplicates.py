"""Duplicate rows of Sluice's sources in one topic partition, found piece after piece.

The reasons are those of ``spark_jobs.common.lake.deduplicate``. What is known of a source's rows is kept as
runs: a row's offset less its sequence number is the same as long as one producer writes a partition alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sluice.core.decoding.identity import Identity
from sluice.core.offsets.deduplication import LoadedRows, Run
from sluice.core.offsets.quarantine import DUPLICATE
from sluice.core.offsets.ranges import IntervalSet
from sluice.core.record_batches.cursor import Flags, Ints

_IN_TABLE = f"{DUPLICATE} this row of its source is in the table already"


@dataclass(frozen=True)
class _Runs:
    """Sequence numbers ``[starts, untils)``, sorted and disjoint, at the offsets ``sequence + bases``."""

    starts: Ints
    untils: Ints
    bases: Ints

    def find(self, sequences: Ints) -> tuple[Flags, Ints]:
        """Which of the rising sequence numbers are there, and the offsets of these."""
        if not len(self.starts) or sequences[0] >= self.untils[-1] or sequences[-1] < self.starts[0]:
            return np.zeros(len(sequences), np.bool_), sequences[:0]
        # The last run that starts before a number, or the first run.
        run = np.maximum(np.searchsorted(self.starts, sequences, "right") - 1, 0)
        is_there: Flags = (self.starts[run] <= sequences) & (sequences < self.untils[run])
        return is_there, sequences[is_there] + self.bases[run[is_there]]

    def updated(self, later: _Runs) -> _Runs:
        """With ``later`` in place of what both have."""
        # Most go on behind the others: all but what they overlap or touch stays as it is.
        first = np.searchsorted(self.untils, later.starts[0], "left")
        last = np.searchsorted(self.starts, later.untils[-1], "right")
        old = _Runs(self.starts[first:last], self.untils[first:last], self.bases[first:last])
        between = later if not len(old.starts) else old._combined(later)
        parts = zip(self._columns, between._columns, strict=True)
        return _Runs(*(np.concatenate((own[:first], new, own[last:])) for own, new in parts))

    def _combined(self, later: _Runs) -> _Runs:
        cuts = np.unique(np.concatenate((self.starts, self.untils, later.starts, later.untils)))
        starts, untils = cuts[:-1], cuts[1:]
        is_there, offsets = _find((self, later), starts)
        return _joined(starts[is_there], untils[is_there], (offsets - starts)[is_there])

    def pairs(self) -> Iterator[tuple[int, int]]:
        return zip(self.starts.tolist(), self.untils.tolist(), strict=True)

    @property
    def _columns(self) -> tuple[Ints, Ints, Ints]:
        return self.starts, self.untils, self.bases


def _find(layers: Sequence[_Runs], sequences: Ints) -> tuple[Flags, Ints]:
    """Which of the rising sequence numbers are there, and their offsets, by the last of the layers."""
    is_there, offsets = np.zeros(len(sequences), np.bool_), np.zeros(len(sequences), np.int64)
    for runs in layers:
        is_in, found = runs.find(sequences)
        is_there |= is_in
        offsets[is_in] = found
    return is_there, offsets


def _add(layers: list[_Runs], later: _Runs) -> None:
    """Add a layer. Each is at most half as large as the one below, so that few are looked at, and each run is
    written few times however rows are mixed."""
    layers.append(later)
    while len(layers) > 1 and 2 * len(layers[-1].starts) > len(layers[-2].starts):
        last = layers.pop()
        layers[-1] = layers[-1].updated(last)


class Deduplication:
    """The good rows of one ``partition`` of a topic; ``loaded``: what is in the table already.

    Its memory grows by runs: with each change of the producer that writes, not with each row.
    """

    def __init__(self, partition: int, loaded: LoadedRows) -> None:
        self._partition = partition
        self._loaded = loaded
        self._in_table: dict[str, _Runs] = {}
        self._layers: dict[str, list[_Runs]] = {}
        self._end = -1

    def duplicates(self, offsets: Ints, rows: Identity, is_good: Flags) -> dict[int, str]:
        """Find those of a piece's records that are good and a row that is in the table, or at a lower offset
        of this piece or of one before it: their places in the piece, and the reasons. The next lower offset
        is named.

        Raises ValueError if the offsets do not rise, in the piece and from piece to piece.
        """
        if len(offsets) and (offsets[0] <= self._end or not (np.diff(offsets) > 0).all()):
            raise ValueError("the offsets of records do not rise")
        self._end = int(offsets[-1]) if len(offsets) else self._end
        reasons: dict[int, str] = {}
        sequences = rows.sequences.fill_null(0).to_numpy()
        for source_id, places in _by_source(rows, is_good):
            reasons.update(self._of_source(source_id, places, sequences[places], offsets[places]))
        return reasons

    def _of_source(
        self, source_id: str, places: Ints, sequences: Ints, offsets: Ints
    ) -> Iterator[tuple[int, str]]:
        # Rows that are there twice stay in the order of their offsets.
        if not (np.diff(sequences) > 0).all():
            order = np.argsort(sequences, kind="stable")
            places, sequences, offsets = places[order], sequences[order], offsets[order]
        is_loaded, _ = self._loaded_runs(source_id).find(sequences)
        if is_loaded.any():
            yield from ((place, _IN_TABLE) for place in places[is_loaded].tolist())
            places, sequences, offsets = (each[~is_loaded] for each in (places, sequences, offsets))
            if not len(places):
                return
        is_repeat = np.append(False, sequences[1:] == sequences[:-1])
        layers = self._layers.setdefault(source_id, [])
        is_known, before = _find(layers, sequences)
        before[is_repeat] = offsets[:-1][is_repeat[1:]]
        found = is_known | is_repeat
        for place, offset in zip(places[found].tolist(), before[found].tolist(), strict=True):
            yield place, f"{DUPLICATE} this row is also at offset {offset}"
        is_last = np.append(~is_repeat[1:], True)
        sequences, offsets = sequences[is_last], offsets[is_last]
        _add(layers, _joined(sequences, sequences + 1, offsets - sequences))

    def _loaded_runs(self, source_id: str) -> _Runs:
        if source_id not in self._in_table:
            pairs = self._loaded[source_id][self._partition].pairs()
            starts, untils = np.array(pairs, np.int64).reshape(-1, 2).T
            self._in_table[source_id] = _Runs(starts, untils, np.zeros(len(starts), np.int64))
        return self._in_table[source_id]

    def runs(self) -> list[Run]:
        """What the pieces add to the table: their good rows without the duplicates."""
        return sorted(
            Run(source_id, self._partition, start, until, until - start)
            for source_id, layers in self._layers.items()
            for start, until in IntervalSet.of(pair for runs in layers for pair in runs.pairs())
        )


def _joined(starts: Ints, untils: Ints, bases: Ints) -> _Runs:
    """Join those of the sorted, disjoint runs that touch and have the same base."""
    is_first = np.append(True, (starts[1:] != untils[:-1]) | (bases[1:] != bases[:-1]))
    firsts = np.flatnonzero(is_first)
    lasts = np.append(firsts[1:], len(starts)) - 1
    return _Runs(starts[firsts], untils[lasts], bases[firsts])


def _by_source(rows: Identity, is_good: Flags) -> Iterator[tuple[str, Ints]]:
    """The places of each source's good rows, rising."""
    codes = rows.source_ids.indices.fill_null(-1).to_numpy()
    places = np.flatnonzero((codes >= 0) & is_good)
    if not len(places):
        return
    codes = codes[places]
    if (codes[1:] != codes[:-1]).any():
        order = np.argsort(codes, kind="stable")
        codes, places = codes[order], places[order]
    firsts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
    for code, part in zip(codes[firsts].tolist(), np.split(places, firsts[1:]), strict=True):
        yield rows.source_ids.dictionary[code].as_py(), part
