"""What a piece's decoded records are: of which row of a source, and why some of them are rejected."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.core.decoding.decoder import Decoded
from sluice.core.decoding.identity import Identity, identity
from sluice.core.decoding.readable import readable_times, unreadable
from sluice.core.offsets.quarantine import WITHHELD_REASON
from sluice.core.record_batches.cursor import Flags


@dataclass(frozen=True)
class Assessment:
    """``times``: of the records in Kafka, microseconds in UTC, null where they cannot be read. ``reasons``:
    row -> why it is rejected, for all that are; ``unreadable``: those of them with a value that Python cannot
    hold."""

    times: pa.TimestampArray
    identity: Identity
    reasons: dict[int, str]
    unreadable: Collection[int]

    @property
    def is_good(self) -> Flags:
        """Whether a record is loaded, for each of them; the others are quarantined."""
        found: Flags = np.ones(len(self.times), np.bool_)
        found[list(self.reasons)] = False
        return found


def assess(
    decoded: Decoded, keys: pa.BinaryArray, timestamps: pa.Array, published: Collection[str] | None = ()
) -> Assessment:
    """Assess decoded records with their ``keys`` and their ``timestamps`` in Kafka (milliseconds or
    microseconds, as their type says).

    A record is rejected for its decoder's reason, else for a value or a timestamp that readers cannot read,
    else because it was sent to be withheld: unless its source is one of the ``published`` (ids; None: all).
    """
    times, beyond = readable_times(timestamps)
    found = identity(keys)
    beyond_readers = unreadable(decoded.columns)
    reasons = _said(decoded.reasons)
    for more in (beyond_readers, beyond, _withheld(found, published)):
        for row, why in more.items():
            reasons.setdefault(row, why)
    return Assessment(times, found, reasons, beyond_readers.keys())


def _said(reasons: pa.StringArray) -> dict[int, str]:
    """The decoder's reasons. A stream's own function may quote what is no UTF-8."""
    if reasons.null_count == len(reasons):
        return {}
    rows = np.flatnonzero(reasons.is_valid().to_numpy(zero_copy_only=False))
    texts = reasons.take(pa.array(rows)).cast(pa.binary()).to_pylist()
    return {row: text.decode(errors="replace") for row, text in zip(rows.tolist(), texts, strict=True)}


def _withheld(found: Identity, published: Collection[str] | None) -> dict[int, str]:
    if published is None:
        return {}
    chosen = found.withheld
    if published:
        is_published = pc.is_in(found.source_ids.cast(pa.string()), pa.array(sorted(published), pa.string()))
        chosen = pc.and_not(chosen, is_published)
    rows = np.flatnonzero(chosen.to_numpy(zero_copy_only=False))
    return dict.fromkeys(rows.tolist(), WITHHELD_REASON)
