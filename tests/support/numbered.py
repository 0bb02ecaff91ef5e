"""Records that are a number and a text, ``7:seven``, through a decoder of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from sluice.core.decoding.decoder import Decoded, Malformed, RawHeaders
from sluice.core.record_batches.records import SCHEMA

WHEN = datetime(2026, 1, 2, tzinfo=UTC)
SOURCE, OTHER = "a" * 16, "b" * 16
# (key, value), headers: by their names.
Given = tuple[bytes | None, bytes | None]
HEADERS = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))


def key(row: int, sequence: int, source: str = SOURCE, mark: str = ":") -> bytes:
    """The key of a source's row; ``mark``: ``!`` of one that is withheld, as WITHHELD_MARK."""
    return f"{source}{mark}{row}:{sequence}".encode()


def piece(
    records: Sequence[Given],
    first: int = 100,
    headers: Mapping[int, RawHeaders] | None = None,
    times: Mapping[int, int] | None = None,
) -> pa.RecordBatch:
    """As the range reader yields it. ``headers``, ``times`` in ms: by the record's place."""
    when = int(WHEN.timestamp() * 1000)
    places = range(len(records))
    columns = [
        pa.array([first + place for place in places], pa.int64()),
        pa.array([(times or {}).get(place, when) for place in places], pa.int64()).view(
            pa.timestamp("ms", tz="UTC")
        ),
        pa.array([0] * len(records), pa.int32()),
        pa.array([3] * len(records), pa.int32()),
        pa.array([one for one, _ in records], pa.binary()),
        pa.array([value for _, value in records], pa.binary()),
        pa.array(
            [[{"key": k, "value": v} for k, v in (headers or {}).get(place, ())] for place in places],
            SCHEMA.field("headers").type,
        ),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


class NumberedDecoder:
    """``day``: as many after 1970, which may be beyond what Python has."""

    schema = pa.schema([("number", pa.int64()), ("text", pa.string()), ("day", pa.date32())])

    def decode(self, values: pa.BinaryArray, headers: pa.ListArray) -> Decoded:
        rows: list[tuple[int | None, str | None, int | None]] = []
        reasons: list[str | None] = []
        for value in values.to_pylist():
            try:
                rows.append(self.parsed(value))
                reasons.append(None)
            except Malformed as error:
                rows.append((None, None, None))
                reasons.append(str(error))
        numbers, texts, days = zip(*rows, strict=True) if rows else ((), (), ())
        columns = [
            pa.array(numbers, pa.int64()),
            pa.array(texts, pa.string()),
            pa.array(days, pa.int32()).view(pa.date32()),
        ]
        return Decoded(
            pa.RecordBatch.from_arrays(columns, schema=self.schema), pa.array(reasons, pa.string())
        )

    def reference(self, value: bytes | None, headers: RawHeaders) -> Mapping[str, Any]:
        number, text, day = self.parsed(value)
        date = day and pa.scalar(day, pa.int32()).cast(pa.date32()).as_py()
        return {"number": number, "text": text, "day": date}

    @staticmethod
    def parsed(value: bytes | None) -> tuple[int | None, str | None, int | None]:
        if value is None:
            raise Malformed("no value")
        number, _, text = value.decode().partition(":")
        if not number.isdigit():
            raise Malformed(f"{number} is no number")
        return int(number), text, int(text) if text.isdigit() else None
