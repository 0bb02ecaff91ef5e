"""Which decoded records are loaded, and why the others are not."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sluice.core.decoding.assessment import assess
from sluice.core.decoding.decoder import Decoded
from sluice.core.offsets.quarantine import WITHHELD_REASON

A, B = "a" * 16, "b" * 16
DAY_MS = 86_400_000
YEAR_ZERO = -719_600 * DAY_MS


def decoded(texts: list[bytes], reasons: list[bytes | None]) -> Decoded:
    values = pa.array(texts, pa.binary()).view(pa.string())
    return Decoded(pa.record_batch({"text": values}), pa.array(reasons, pa.binary()).view(pa.string()))


def test_the_decoders_reason_comes_first_then_values_then_times_then_withheld() -> None:
    key = f"{A}!1:1".encode()
    found = assess(
        decoded([b"\xff", b"\xff", b"x", b"x", b"x"], [b"it is bad", None, None, None, None]),
        pa.array([key, key, key, key, None], pa.binary()),
        pa.array([YEAR_ZERO, YEAR_ZERO, YEAR_ZERO, 0, 0]),
    )
    beyond = "its timestamp in Kafka is beyond what can be read: "
    assert {row: why.removeprefix(beyond)[:20] for row, why in found.reasons.items()} == {
        0: "it is bad",
        1: "text is not UTF-8",
        2: found.reasons[2].removeprefix(beyond)[:20],
        3: WITHHELD_REASON[:20],
    }
    assert found.reasons[2].startswith(beyond)
    assert found.is_good.tolist() == [False] * 4 + [True]
    assert sorted(found.unreadable) == [0, 1]


@pytest.mark.parametrize(("published", "rejected"), [((), [0, 1]), ([A], [1]), ([A, B], []), (None, [])])
def test_what_was_withheld_comes_with_a_change_that_publishes_it(
    published: list[str] | None, rejected: list[int]
) -> None:
    keys = [f"{source}!1:1".encode() for source in (A, B)] + [f"{A}:1:1".encode()]
    found = assess(decoded([b"x"] * 3, [None] * 3), pa.array(keys), pa.array([0, 0, 0]), published)
    assert found.reasons == dict.fromkeys(rejected, WITHHELD_REASON)


def test_a_reason_that_is_no_utf8_is_a_text() -> None:
    found = assess(decoded([b"x"], [b"bad: \xff"]), pa.nulls(1, pa.binary()), pa.array([0]))
    assert found.reasons == {0: "bad: \N{REPLACEMENT CHARACTER}"}


def test_times_may_be_in_microseconds() -> None:
    ms = [0, 1_700_000_000_123, YEAR_ZERO]
    micros = pa.array([one * 1000 for one in ms], pa.timestamp("us", tz="UTC"))
    one, other = (
        assess(decoded([b"x"] * 3, [None] * 3), pa.nulls(3, pa.binary()), times)
        for times in (pa.array(ms, pa.timestamp("ms", tz="UTC")), micros)
    )
    assert (one.times, one.reasons) == (other.times, other.reasons)
    assert other.times.cast(pa.int64()).to_pylist() == [0, 1_700_000_000_123_000, None]
