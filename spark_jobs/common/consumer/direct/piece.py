"""The rows of one piece of a partition: decoded, identified, and those apart that are rejected."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.core.decoding.assessment import Assessment, assess
from sluice.core.decoding.decoder import Decoded, Malformed, RecordDecoder
from sluice.core.decoding.duplicates import Deduplication
from sluice.core.error_codes import ErrorCode
from sluice.core.offsets.deduplication import Run
from sluice.core.record_batches.cursor import Ints
from sluice.core.record_batches.records import MAX_HEADERS
from spark_jobs.common.kafka.read_ranges import headers_as_text
from spark_jobs.common.lake.written.written_batch import runs_of

_NO_OFFSETS: Ints = np.zeros(0, np.int64)
# The reference decodes one record of so many again, scattered, whatever patterns producers have.
_ONE_OF = 4096
# 2**64 by the golden ratio: the highest bits of its multiples are spread. The lowest are those of the offset.
_SCATTER, _HIGHEST = np.uint64(0x9E37_79B9_7F4A_7C15), np.uint64((1 << 64) // _ONE_OF)


class DecodersDiffer(RuntimeError):
    """A record is another one for the reference than for the decoder; nothing of its batch is published."""

    code = ErrorCode.DECODERS_DIFFER


@dataclass(frozen=True)
class PieceRows:
    """``good``: columns of the table; ``bad``: columns of the quarantine, a ``reason`` among them, None
    without any; ``runs``: of all rows, since a rejected one would be a gap; ``skipped``: the offsets of the
    records that are in neither, as the stream declares; ``unfollowed``: as ``Decoded`` has it; ``schemas``:
    too, of offsets."""

    good: pa.RecordBatch
    bad: pa.RecordBatch | None
    runs: list[Run]
    skipped: Ints = field(default_factory=lambda: _NO_OFFSETS)
    unfollowed: frozenset[int] = frozenset()
    schemas: Mapping[int, tuple[int, int]] = field(default_factory=dict)


def rows_of(
    piece: pa.RecordBatch, partition: int, decoder: RecordDecoder, deduplication: Deduplication | None = None
) -> PieceRows:
    """``piece``: as ``record_batches.records.SCHEMA``. Records that were sent to be withheld are rejected,
    and those that ``deduplication`` finds to be duplicates. Raises DecodersDiffer, and what the decoder
    raises."""
    decoded = decoder.decode(piece.column("key"), piece.column("value"), piece.column("headers"))
    found = assess(decoded, own_keys(piece, decoder), piece.column("timestamp"))
    many = _with_many_headers(piece)
    _check_sample(piece, partition, decoder, decoded, {*found.unreadable, *many})
    found.reasons.update(many)
    if decoded.skipped is not None:
        for row in np.flatnonzero(decoded.skipped).tolist():
            found.reasons.pop(row, None)
    if deduplication is not None:
        offsets = piece.column("offset").to_numpy()
        found.reasons.update(deduplication.duplicates(offsets, found.identity, found.is_good))
    context = _context(piece, partition, found)
    good = pa.RecordBatch.from_arrays(
        [*decoded.columns.columns, *context.values()], [*decoded.columns.schema.names, *context]
    )
    runs = runs_of(pa.table({name: context[name] for name in _OF_RUNS}))
    skipped = _NO_OFFSETS
    is_good = found.is_good
    if decoded.skipped is not None:
        skipped = piece.column("offset").to_numpy()[decoded.skipped]
        is_good &= ~decoded.skipped
    bad = _bad(piece, context, found.reasons) if found.reasons else None
    good = good if is_good.all() else good.filter(pa.array(is_good))
    offsets = piece.column("offset")
    schemas = {
        schema_id: (offsets[first].as_py(), offsets[last].as_py())
        for schema_id, (first, last) in decoded.schemas.items()
    }
    return PieceRows(good, bad, runs, skipped, decoded.unfollowed, schemas)


def own_keys(piece: pa.RecordBatch, decoder: RecordDecoder | None) -> pa.BinaryArray:
    """The keys that may name a row of a source: none of a topic that others fill, whatever they look like."""
    is_own = decoder is None or decoder.has_sources
    return piece.column("key") if is_own else pa.nulls(len(piece), pa.binary())


def _with_many_headers(piece: pa.RecordBatch) -> dict[int, str]:
    """The records whose headers were not read, and the reason."""
    headers = piece.column("headers")
    if not headers.null_count:
        return {}
    rows = np.flatnonzero(headers.is_null().to_numpy(zero_copy_only=False))
    return dict.fromkeys(rows.tolist(), f"it has more than {MAX_HEADERS:,} headers, which are not kept")


def undecoded(
    piece: pa.RecordBatch, partition: int, reason: str, decoder: RecordDecoder | None = None
) -> PieceRows:
    """All records of a piece rejected for this reason, by what is not in their values. ``decoder``: of the
    others; None for a stream with its own function."""
    nothing = pa.RecordBatch.from_arrays([], [])
    reasons = pa.array([reason] * len(piece), pa.string())
    found = assess(Decoded(nothing, reasons), own_keys(piece, decoder), piece.column("timestamp"))
    context = _context(piece, partition, found)
    runs = runs_of(pa.table({name: context[name] for name in _OF_RUNS}))
    return PieceRows(nothing, _bad(piece, context, found.reasons), runs)


_OF_RUNS = ("_kafka_partition", "_kafka_offset", "_source_id", "_source_base_offset")


def _context(piece: pa.RecordBatch, partition: int, found: Assessment) -> dict[str, pa.Array]:
    offsets = piece.column("offset")
    return {
        "_kafka_partition": pa.array(np.full(len(piece), partition, np.int32)),
        "_kafka_offset": offsets,
        "_kafka_timestamp": found.times,
        **found.identity.columns(offsets),
    }


def _bad(
    piece: pa.RecordBatch, context: Mapping[str, pa.Array], reasons: Mapping[int, str]
) -> pa.RecordBatch:
    rows = pa.array(sorted(reasons), pa.int64())
    raw = piece.take(rows)
    columns = {name: column.take(rows) for name, column in context.items()} | {
        "_source_id": context["_source_id"].take(rows).cast(pa.string()),
        "_kafka_timestamp_type": raw.column("timestamp_type"),
        "key": raw.column("key"),
        "value": raw.column("value"),
        "headers": headers_as_text(raw.column("headers")),
        "reason": pa.array([reasons[row] for row in sorted(reasons)], pa.string()),
    }
    return pa.RecordBatch.from_pydict(columns)


def _check_sample(
    piece: pa.RecordBatch, partition: int, decoder: RecordDecoder, decoded: Decoded, unread: Collection[int]
) -> None:
    """Decode some records by the reference, too: neither decoder is believed alone. ``unread``: records with
    values that Python cannot hold, which are rejected."""
    for row in _sample(piece.column("offset").to_numpy()):
        if row in unread:
            continue
        headers = [(one["key"], one["value"]) for one in piece.column("headers")[row].as_py()]
        key, value = piece.column("key")[row].as_py(), piece.column("value")[row].as_py()
        # None: left out, as the stream declares.
        expected: Mapping[str, Any] | str | None
        try:
            expected = decoder.reference(key, value, headers)
        except Malformed as error:
            expected = str(error)
        said: Mapping[str, Any] | str | None = decoded.reasons[row].as_py()
        if said is None and not (decoded.skipped is not None and decoded.skipped[row]):
            said = decoded.columns.slice(row, 1).to_pylist()[0]
        if not _same(said, expected):
            raise DecodersDiffer(
                f"partition {partition}, offset {piece.column('offset')[row]}: two decoders give two records "
                f"({_differing(said, expected)}); nothing of the batch is published. Fix: report it with "
                "the record's value; set [consumer] by_reference = true meanwhile"
            )


def _sample(offsets: Ints) -> list[int]:
    """The same offsets at each attempt, so that a restart does not pass over a difference; and the first one
    of each piece."""
    chosen: list[int] = np.flatnonzero(offsets.astype(np.uint64) * _SCATTER < _HIGHEST).tolist()
    return chosen if not len(offsets) or chosen[:1] == [0] else [0, *chosen]


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    return bool(left == right)


def _differing(said: Any, expected: Any) -> str:
    """Where they differ, without the record's values."""
    if isinstance(said, Mapping) and isinstance(expected, Mapping):
        names = sorted(
            key
            for key in {*said, *expected}
            if key not in said or key not in expected or not _same(said[key], expected[key])
        )
        return f"columns {', '.join(names)}"
    return f"{_outcome(said)}, {_outcome(expected)} by the reference"


def _outcome(said: Any) -> str:
    return f"rejected ({said})" if isinstance(said, str) else "no row" if said is None else "a row"
