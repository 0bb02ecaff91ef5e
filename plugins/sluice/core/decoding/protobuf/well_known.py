"""Times and lengths of time, as Google's well-known types have them: in nanoseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sluice.core.decoding.decoder import Malformed
from sluice.core.decoding.protobuf.messages import fields_of

_SECOND = 1_000_000_000
# timestamp.proto and duration.proto: the years 1 to 9999, and 10,000 years forwards and back.
_TIMES = (-62_135_596_800, 253_402_300_799)
_LONGEST = 315_576_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_of(message: Any, path: str) -> int:
    """Nanoseconds since 1970 of a Timestamp. Raises Malformed for one that is none."""
    seconds, nanos = _parts(message)
    if not _TIMES[0] <= seconds <= _TIMES[1] or not 0 <= nanos < _SECOND:
        raise Malformed(f"{path} is no time of the years 1 to 9999: seconds {seconds}, nanos {nanos}")
    return seconds * _SECOND + nanos


def length_of(message: Any, path: str) -> int:
    """Nanoseconds of a Duration. Raises Malformed for one that is none."""
    seconds, nanos = _parts(message)
    if abs(seconds) > _LONGEST or abs(nanos) >= _SECOND or seconds * nanos < 0:
        raise Malformed(f"{path} is no duration: seconds {seconds}, nanos {nanos}")
    return seconds * _SECOND + nanos


def time_text(nanos: int) -> str:
    """As RFC 3339 has it, with six or nine digits of a second."""
    micros, rest = divmod(nanos, 1000)
    text = (_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=None).isoformat(timespec="microseconds")
    return f"{text}{rest:03d}Z" if rest else f"{text}Z"


def _parts(message: Any) -> tuple[int, int]:
    found = fields_of(message)
    return found.get(1, 0), found.get(2, 0)
