"""One record through a decoder's two ways, which must agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from sluice.core.decoding.decoder import Malformed
from sluice.core.decoding.json.decoder import JsonDecoder


@dataclass(frozen=True)
class Rejected:
    reason: str


Outcome = dict[str, Any] | Rejected


def both(columns: Mapping[str, str], value: bytes | None) -> Any:
    """What a record is, alone and between others; by the reference, too."""
    decoder = JsonDecoder(columns)
    expected = by_reference(decoder, value)
    assert comparable(decoded(decoder, [value])) == comparable([expected])
    between = [b'{"":1}'] * 20
    nothing = dict.fromkeys(columns)
    found = decoded(decoder, [*between, value, *between])
    assert comparable(found) == comparable([nothing] * 20 + [expected] + [nothing] * 20)
    return expected


def by_reference(decoder: JsonDecoder, value: bytes | None) -> Outcome:
    try:
        return dict(decoder.reference(value, ()))
    except Malformed as error:
        return Rejected(str(error))


def decoded(decoder: JsonDecoder, values: Sequence[bytes | None]) -> list[Outcome]:
    """All at once, from an array that is a part of another."""
    array = pa.array([b"{", *values, b"}"], pa.binary())[1:-1]
    found = decoder.decode(array, pa.array([[]] * len(values)))
    found.columns.validate(full=True)
    found.reasons.validate(full=True)
    assert found.columns.schema == decoder.schema
    rows = zip(found.columns.to_pylist(), found.reasons.to_pylist(), strict=True)
    return [row if reason is None else Rejected(reason) for row, reason in rows]


def comparable(outcomes: Sequence[Outcome]) -> list[object]:
    """Zeros differ by their sign, decimals by their scale, and time zones by nothing but their offset."""
    return [
        outcome
        if isinstance(outcome, Rejected)
        else {
            name: str(value) if isinstance(value, datetime) else repr(value)
            for name, value in outcome.items()
        }
        for outcome in outcomes
    ]
