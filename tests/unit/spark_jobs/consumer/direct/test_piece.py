"""Rows of a piece: decoded, identified, rejected, and compared with the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from sluice.core.decoding.decoder import Malformed, OwnRecords, RawHeaders
from sluice.core.decoding.duplicates import Deduplication
from sluice.core.decoding.others.plain import TextDecoder
from sluice.core.decoding.others.records import OthersRecords
from sluice.core.offsets.deduplication import LoadedRows, Run
from sluice.core.offsets.quarantine import DUPLICATE, WITHHELD_REASON
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.offsets.sources import WITHHELD_MARK
from sluice.core.record_batches.records import SCHEMA
from spark_jobs.common.consumer.direct.piece import DecodersDiffer, PieceRows, rows_of, undecoded
from tests.support.numbered import OTHER, SOURCE, WHEN, NumberedDecoder, key, piece
from tests.support.raising import raising

PARTITION = 4
CONTEXT = [
    *("_kafka_partition", "_kafka_offset", "_kafka_timestamp"),
    *("_source_id", "_source_row", "_source_base_offset"),
]
# More days than Python's dates have.
BEYOND = b"1:9999999"
# More ms than readers can hold.
LATE = 1 << 60


def rows(given: pa.RecordBatch, **more: Any) -> PieceRows:
    return rows_of(given, PARTITION, OwnRecords(NumberedDecoder()), **more)


def reasons(found: PieceRows) -> dict[int, str]:
    bad = found.bad
    if bad is None:
        return {}
    return dict(zip(bad["_kafka_offset"].to_pylist(), bad["reason"].to_pylist(), strict=True))


def test_good_rows_have_the_tables_columns() -> None:
    found = rows(piece([(key(7, 2), b"1:one"), (None, b"2:two"), (b"own key", b"3:three")]))
    assert found.good.schema.names == ["number", "text", "day", *CONTEXT]
    assert found.good.to_pylist()[0] == {
        "number": 1,
        "text": "one",
        "day": None,
        "_kafka_partition": PARTITION,
        "_kafka_offset": 100,
        "_kafka_timestamp": WHEN,
        "_source_id": SOURCE,
        "_source_row": 7,
        "_source_base_offset": 98,
    }
    for external in found.good.to_pylist()[1:]:
        assert [external[name] for name in CONTEXT[3:]] == [None] * 3
    assert found.good["_kafka_partition"].type == pa.int32()
    assert found.bad is None
    assert found.runs == [Run(SOURCE, PARTITION, 2, 3, 1)]


def test_a_record_whose_headers_are_too_many_is_rejected() -> None:
    """The first one is in the sample of the reference, which would read them."""
    given = piece([(key(1, 1), b"1:one"), (key(2, 2), b"2:two")])
    given = given.set_column(
        given.schema.get_field_index("headers"),
        SCHEMA.field("headers"),
        pa.array([None, []], SCHEMA.field("headers").type),
    )
    found = rows(given)
    assert found.good["number"].to_pylist() == [2]
    assert reasons(found) == {100: "it has more than 10,000 headers, which are not kept"}
    assert found.bad is not None
    assert (found.bad["value"].to_pylist(), found.bad["headers"].to_pylist()) == ([b"1:one"], [None])


def test_rejected_rows_are_as_they_came() -> None:
    given = piece(
        [(key(1, 1), b"1:one"), (key(2, 2), b"\x01x"), (b"\xff", None)],
        headers={1: [(b"a", b"\xfe"), (b"a", None)]},
    )
    found = rows(given)
    assert found.good["number"].to_pylist() == [1]
    assert found.bad is not None
    first, second = found.bad.to_pylist()
    assert first == {
        "_kafka_partition": PARTITION,
        "_kafka_offset": 101,
        "_kafka_timestamp": WHEN,
        "_kafka_timestamp_type": 0,
        "_source_id": SOURCE,
        "_source_row": 2,
        "_source_base_offset": 99,
        "key": key(2, 2),
        "value": b"\x01x",
        "headers": [{"key": "a", "value": b"\xfe"}, {"key": "a", "value": None}],
        "reason": "\x01x is no number",
    }
    assert (second["key"], second["value"], second["headers"]) == (b"\xff", None, None)
    assert (second["_source_id"], second["reason"]) == (None, "no value")
    # A rejected row would be a gap of its source.
    assert found.runs == [Run(SOURCE, PARTITION, 1, 3, 2)]


def test_good_and_bad_pieces_have_the_same_columns() -> None:
    """So that a task writes them into the same file."""
    pieces = [rows(piece([(None, value)])) for value in (b"1:a", b"x", None)]
    pieces.append(rows(piece([])))
    assert len({str(found.good.schema) for found in pieces}) == 1
    assert len({str(found.bad.schema) for found in pieces if found.bad is not None}) == 1
    assert [(found.good.num_rows, len(reasons(found))) for found in pieces] == [
        (1, 0),
        (0, 1),
        (0, 1),
        (0, 0),
    ]
    assert [found.bad is None for found in pieces] == [True, False, False, True]


def test_the_first_reason_is_the_decoders_then_values_then_time_then_withheld() -> None:
    withheld = [key(row, row, mark=WITHHELD_MARK) for row in range(4)]
    values = [b"x", BEYOND, b"1:a", b"1:a"]
    found = rows(piece(list(zip(withheld, values, strict=True)), times=dict.fromkeys(range(3), LATE)))
    said = reasons(found)
    assert said[100] == "x is no number"
    assert said[101].startswith("day is a date beyond")
    assert said[102].startswith("its timestamp in Kafka")
    assert said[103] == WITHHELD_REASON
    assert found.bad is not None
    assert found.bad["_kafka_timestamp"].to_pylist() == [None] * 3 + [WHEN]
    assert not found.good.num_rows


def test_duplicates_are_rejected_and_other_reasons_come_first() -> None:
    loaded = LoadedRows({SOURCE: OffsetRanges.of({PARTITION: [(0, 2)]})})
    known = Deduplication(PARTITION, loaded)
    first = rows(
        piece([(key(1, 1), b"1:a"), (key(1, 1), b"x"), (key(5, 5), b"5:a"), (key(6, 6), b"x")]),
        deduplication=known,
    )
    assert [text.partition(" ")[0] for text in reasons(first).values()] == [DUPLICATE, "x", "x"]
    assert list(reasons(first)) == [100, 101, 103]
    # The malformed one of row 6 counts as no row.
    again = [(key(5, 5), b"5:a"), (key(6, 6), b"6:a"), (key(5, 5, OTHER), b"5:a"), (key(6, 6), b"6:a")]
    second = rows(piece(again, first=200), deduplication=known)
    assert {offset: DUPLICATE in why for offset, why in reasons(second).items()} == {200: True, 203: True}
    assert "102" in reasons(second)[200]
    assert "201" in reasons(second)[203]
    assert second.good["_kafka_offset"].to_pylist() == [201, 202]


def test_a_record_that_no_reader_can_read_stops_no_batch() -> None:
    """Python cannot hold it, so it cannot be compared: the first record would be."""

    class Refusing(NumberedDecoder):
        def reference(self, value: bytes | None, headers: RawHeaders) -> Mapping[str, Any]:
            raise AssertionError(value)

    given = piece([(None, BEYOND), (None, b"2:two")])
    found = rows_of(given, PARTITION, OwnRecords(Refusing()))
    assert list(reasons(found)) == [100]
    assert found.good["number"].to_pylist() == [2]
    with raising(AssertionError, "2:two"):
        rows_of(given.slice(1), PARTITION, OwnRecords(Refusing()))


class Differing(NumberedDecoder):
    """Its reference says ``outcome``."""

    def __init__(self, outcome: Mapping[str, Any] | str) -> None:
        self.outcome = outcome

    def reference(self, value: bytes | None, headers: RawHeaders) -> Mapping[str, Any]:
        if isinstance(self.outcome, str):
            raise Malformed(self.outcome)
        return self.outcome


@pytest.mark.parametrize(
    ("value", "outcome", "words"),
    [
        (b"41:secret", {"number": 41, "text": "other", "day": None}, ["columns text"]),
        (b"41:secret", {"number": 42, "text": "x", "day": None}, ["columns number, text"]),
        (b"41:secret", {"number": 41, "text": "secret"}, ["columns day"]),
        (b"41:secret", "no good", ["a row, rejected (no good) by the reference"]),
        (None, {"number": 1, "text": "", "day": None}, ["rejected (no value), a row by the reference"]),
        (None, "another", ["rejected (no value), rejected (another)"]),
    ],
)
def test_two_decoders_that_differ_stop_the_batch(
    value: bytes | None, outcome: Mapping[str, Any] | str, words: Sequence[str]
) -> None:
    """The error names the record and the columns, and no value."""
    with raising(DecodersDiffer, f"partition {PARTITION}", "offset 100", *words, "Fix: ") as caught:
        rows_of(piece([(None, value)]), PARTITION, OwnRecords(Differing(outcome)))
    for shown in ("secret", "other", "41", "42"):
        assert shown not in str(caught.value).replace("another", "")


def test_decoders_that_agree_are_believed() -> None:
    found = rows_of(piece([(None, b"x")]), PARTITION, OwnRecords(Differing("x is no number")))
    assert reasons(found) == {100: "x is no number"}


def test_the_reference_has_the_headers_as_they_are() -> None:
    headers: RawHeaders = [(b"a", b"\xfe"), (b"a", None), (b"\xff", b"")]

    class Reading(NumberedDecoder):
        def reference(self, value: bytes | None, given: RawHeaders) -> Mapping[str, Any]:
            assert list(given) == headers
            return super().reference(value, given)

    given = piece([(None, b"1:a")], headers={0: headers})
    assert rows_of(given, PARTITION, OwnRecords(Reading())).good.num_rows == 1


def test_a_tombstone_that_the_stream_skips_is_neither_row_nor_rejected() -> None:
    sent = piece([(None, b"a"), (b"k", None), (b"k", b"\xff"), (b"k", None)], times={3: LATE})
    found = rows_of(sent, PARTITION, OthersRecords(TextDecoder("text"), tombstones="skip"))
    assert found.good["_kafka_offset"].to_pylist() == [100]
    assert list(reasons(found)) == [102]
    # Also one whose time no reader can show: it is in no table.
    assert found.skipped.tolist() == [101, 103]
    assert rows_of(sent.slice(0, 1), PARTITION, OthersRecords(TextDecoder("text"))).skipped.tolist() == []


def test_a_key_of_others_names_no_row_of_a_source() -> None:
    """Whatever it looks like: it is neither a duplicate nor withheld."""
    sent = piece([(key(1, 1), b"a"), (key(1, 1), b"b"), (key(2, 2, mark=WITHHELD_MARK), b"\xff")])
    decoder = OthersRecords(TextDecoder("text"), TextDecoder("key"))
    loaded = LoadedRows({SOURCE: OffsetRanges.of({PARTITION: [(0, 9)]})})
    found = rows_of(sent, PARTITION, decoder, Deduplication(PARTITION, loaded))
    assert found.good["_source_id"].to_pylist() == [None, None]
    assert found.good["key"].to_pylist() == [key(1, 1).decode()] * 2
    assert found.runs == []
    assert found.bad is not None
    assert found.bad["_source_id"].to_pylist() == [None]
    assert undecoded(sent, PARTITION, "no", decoder).runs == []
    assert undecoded(sent, PARTITION, "no").runs


def test_a_reference_that_skips_what_the_decoder_has_stops_the_batch() -> None:
    class Skipping(OthersRecords):
        def reference(self, *given: Any) -> None:
            return None

    with raising(DecodersDiffer, "a row, no row by the reference"):
        rows_of(piece([(None, b"a")]), PARTITION, Skipping(TextDecoder("text")))
