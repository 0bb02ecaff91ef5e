"""Which records of a piece the reference decodes, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from sluice.core.decoding.decoder import OwnRecords, RawHeaders
from spark_jobs.common.consumer.direct.piece import _ONE_OF, _sample, rows_of
from tests.support.numbered import NumberedDecoder, piece

# As many offsets as make about a hundred of a sample.
MANY = 100 * _ONE_OF
# A log's offsets may be as large as this.
BEGINS = [0, 1, 4_095, 10**6 + 1, 2**31 - 5, 2**40 + 7, 2**62]


def sampled(offsets: Any) -> set[int]:
    """The offsets of the sample, without the first one of the piece."""
    found = _sample(np.asarray(offsets, np.int64))
    assert found == sorted(set(found)), "in their order, each once"
    return {int(offsets[place]) for place in found if place}


class Seeing(NumberedDecoder):
    """Keeps the values that its reference decodes."""

    def __init__(self) -> None:
        self.seen: list[bytes | None] = []

    def reference(self, value: bytes | None, headers: RawHeaders) -> Mapping[str, Any]:
        self.seen.append(value)
        return super().reference(value, headers)


def test_the_first_record_and_one_of_many_are_decoded_twice_the_same_ones_again() -> None:
    first, count = 1_000, 50_000
    given = piece([(None, b"%d:a" % n) for n in range(first, first + count)], first)
    seen = []
    for _ in range(2):
        decoder = Seeing()
        rows_of(given, 0, OwnRecords(decoder))
        seen.append([int((value or b"").partition(b":")[0]) for value in decoder.seen])
    assert seen[0] == seen[1] == [first, *sorted(sampled(range(first, first + count)))]
    assert 8 <= len(seen[0]) <= 20


@pytest.mark.parametrize("begin", BEGINS)
def test_one_offset_of_many_is_chosen_wherever_the_log_is(begin: int) -> None:
    assert 90 <= len(sampled(np.arange(begin, begin + MANY))) <= 110


@pytest.mark.parametrize("step", [2, 10, 12, 1_000, 4_096, 65_536])
@pytest.mark.parametrize("begin", BEGINS)
def test_producers_whose_records_repeat_do_not_hide_from_the_sample(begin: int, step: int) -> None:
    """A producer of every 4,096th record, say, has its share of the sample: about half of it, to twice."""
    assert 50 <= len(sampled(begin + step * np.arange(MANY))) <= 200


@pytest.mark.parametrize("begin", BEGINS[:5])
def test_an_offset_is_chosen_in_whatever_piece_it_comes(begin: int) -> None:
    offsets = np.arange(begin, begin + 5 * _ONE_OF)
    whole = sampled(offsets)
    assert whole
    for size in (1, 7, 1_000, 4_096):
        places = range(0, len(offsets), size)
        firsts = {int(offsets[place]) for place in places}
        of_pieces = set[int]().union(*(sampled(offsets[place : place + size]) for place in places))
        assert of_pieces == whole - firsts


def test_a_small_piece_is_compared_by_its_first_record() -> None:
    assert _sample(np.array([7, 8, 9], np.int64)) == [0]
    assert _sample(np.array([], np.int64)) == []
