"""Record batches into Arrow: what was written, whole; anything else is a named error, never a wrong row."""

from __future__ import annotations

import random
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.memory_records import MemoryRecords

from sluice.core.record_batches import codecs, records
from sluice.core.record_batches.header import DamagedBatch, batches
from tests.support.raising import raising
from tests.support.record_batches import CODECS, Made, Record, joined, varint

TEXT = st.none() | st.binary(max_size=300)
RECORDS = st.lists(
    st.builds(
        Record,
        offset=st.integers(1, 200),
        timestamp=st.integers(-(10**6), 2**43),
        key=TEXT,
        value=TEXT,
        headers=st.lists(st.tuples(st.binary(max_size=5), TEXT), max_size=4).map(tuple),
    ),
    min_size=1,
    max_size=20,
)


def read(data: bytes, asked: int = 0) -> list[Record]:
    found = records.read([(batch, codecs.decompressed(batch, 1 << 30)) for batch in batches(data, asked)])
    found.validate(full=True)
    times = found.column("timestamp").cast("int64").to_pylist()
    return [
        Record(
            row["offset"],
            time,
            row["key"],
            row["value"],
            tuple((h["key"], h["value"]) for h in row["headers"]),
        )
        for row, time in zip(found.drop_columns("timestamp").to_pylist(), times, strict=True)
    ]


def rising(given: list[Record], first: int) -> tuple[Record, ...]:
    """Their offsets are the steps between them."""
    offset, found = first - 1, []
    for record in given:
        offset += record.offset
        found.append(replace(record, offset=offset))
    return tuple(found)


@given(st.lists(st.tuples(RECORDS, st.sampled_from(sorted(CODECS))), min_size=1, max_size=4))
def test_records_are_as_they_were_written(given: list[tuple[list[Record], str]]) -> None:
    made: list[Made] = []
    following = 5
    for written, codec in given:
        made.append(Made(rising(written, following), codec, base_offset=following))
        following = made[-1].records[-1].offset + 3
    assert read(joined(made)) == [record for batch in made for record in batch.records]


@pytest.mark.parametrize("size", [40, 60, 8_170, 8_190, 1 << 20])
def test_lengths_of_one_to_four_bytes(size: int) -> None:
    written = [Record(n, value=bytes(size + n)) for n in range(30)]
    assert read(Made(tuple(written)).bytes()) == written


def test_a_record_with_other_headers_than_those_around_it() -> None:
    usual, other = ((b"schema", b"a1"), (b"n", None)), ((b"schema", b"a2"),)
    written = [Record(n, headers={3: other, 5: ()}.get(n, usual)) for n in range(9)]
    assert read(Made(tuple(written)).bytes()) == written


@given(RECORDS)
def test_another_reader_finds_the_same(given: list[Record]) -> None:
    headers = [(key.decode("latin1").encode(), value) for key, value in given[0].headers]
    made = Made(rising([replace(record, headers=()) for record in given], 5))
    made = Made((replace(made.records[0], headers=tuple(headers)), *made.records[1:]))
    other = [
        Record(r.offset, r.timestamp, r.key, r.value, tuple((k.encode(), v) for k, v in r.headers))
        for batch in iter(MemoryRecords(made.bytes()).next_batch, None)
        for r in batch
    ]
    assert read(made.bytes()) == other


def test_the_time_of_a_topic_with_log_append_time_is_the_brokers() -> None:
    made = Made((Record(1, 50), Record(2, 60)), append_time=9_000)
    (batch,) = batches(made.bytes(), 0)
    found = records.read([(batch, batch.body)])
    assert found.column("timestamp").cast("int64").to_pylist() == [9_000, 9_000]
    assert found.column("timestamp_type").to_pylist() == [1, 1]
    assert found.column("leader_epoch").to_pylist() == [3, 3]


def test_a_batch_that_the_cleaner_emptied_has_no_record() -> None:
    made = [Made((), base_offset=4, last_offset=9), Made((Record(10),))]
    assert [batch.last_offset for batch in batches(joined(made), 4)] == [9, 10]
    assert [record.offset for record in read(joined(made), 4)] == [10]


def test_a_batch_before_the_offset_and_one_that_was_cut_off_are_left_out() -> None:
    data = joined([Made((Record(1),)), Made((Record(2), Record(3))), Made((Record(4),))])
    assert [batch.base_offset for batch in batches(data[:-1], 3)] == [2]
    assert list(batches(b"", 3)) == []


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (Made((Record(1),), lie={"count": 2}), "2 records from 1 on"),
        (Made((Record(1), Record(2)), lie={"count": 1}), "bytes behind its 1 records"),
        (Made((Record(1), Record(9)), lie={"count": 3}), "has no end"),
        (Made((Record(1), Record(9)), lie={"last_delta": 3}), "not laid out as one"),
        (Made((Record(3), Record(2)), base_offset=1, last_offset=4), "not laid out as one"),
        (Made((Record(2), Record(2)), base_offset=1, last_offset=4), "not laid out as one"),
        (Made((Record(1),), lie={"attributes": 5}), "codec 5"),
        (Made((Record(1),), lie={"attributes": 4}), "its body"),
        (Made((Record(1),), lie={"attributes": 2}), "its body"),
        (Made((Record(1),), lie={"last_delta": -1}), "-1 behind it"),
    ],
)
def test_a_batch_whose_checksum_is_right_may_lie(made: Made, words: str) -> None:
    with raising(DamagedBatch, words):
        read(made.bytes())


def test_a_flipped_bit_is_seen() -> None:
    data = bytearray(Made((Record(7, key=b"k"),)).bytes())
    data[-2] ^= 4
    with raising(DamagedBatch, "the checksum of the batch at offset 7 differs"):
        read(bytes(data))


def test_a_record_of_an_old_format_is_named() -> None:
    data = bytearray(Made((Record(7),)).bytes())
    data[16] = 1
    with raising(DamagedBatch, "message format 1: only 2 is read"):
        read(bytes(data))


def test_batches_come_in_order() -> None:
    made = [Made((Record(5), Record(6))), Made((Record(6),))]
    with raising(DamagedBatch, "behind offset 7: a batch of offset 6"):
        read(joined(made))
    # Behind a batch that was read, none begins before what was asked for.
    data = Made((Record(5), Record(6))).bytes()
    assert len(list(batches(data, 6))) == 1
    with raising(DamagedBatch, "behind offset 6"):
        list(batches(data, 6, is_continued=True))


@pytest.mark.parametrize("codec", sorted(CODECS))
def test_a_few_bytes_that_stand_for_many_are_refused(codec: str) -> None:
    (batch,) = batches(Made((Record(1, value=bytes(100_000)),), codec).bytes(), 0)
    if codec == "none":
        assert len(codecs.decompressed(batch, 100)) > 100_000, "it has been in memory already"
        return
    with raising(
        codecs.BatchTooLarge,
        "offsets 1 to 1: more than 90000 bytes when decompressed. Fix: raise `max_batch_mb`",
    ):
        codecs.decompressed(batch, 90_000)


@pytest.mark.parametrize("shown", [b"\x80" * 10, varint(2**40), varint(-5)], ids=repr)
@pytest.mark.parametrize("place", ["record", "key", "headers"])
def test_a_lying_length_reads_nothing_beyond(shown: bytes, place: str) -> None:
    body = b"\0\0\0" + {"key": shown, "headers": varint(-1) + varint(-1) + shown}.get(place, b"\1\1\0")
    body = (shown if place == "record" else varint(len(body))) + body
    (batch,) = batches(Made((Record(1),)).bytes(), 0)
    with raising(DamagedBatch, "damaged record batch of offsets 1 to 1"):
        records.read([(batch, body)])


def test_bytes_that_were_damaged_anyhow_are_an_error_or_the_same_records() -> None:
    """The broker's own fields, before the checksum, are beyond it: base offset, length, epoch."""
    chance = random.Random(1)  # noqa: S311
    made = [
        Made(
            tuple(
                Record(n, key=b"k%d" % n, value=b"v" * n, headers=((b"h", b"x"),)) for n in range(s, s + 5)
            ),
            codec,
        )
        for s, codec in zip(range(10, 60, 5), sorted(CODECS) * 2, strict=False)
    ]
    data = joined(made)
    right = {record for batch in made for record in batch.records}
    refused = 0
    for _ in range(3_000):
        damaged = bytearray(data)
        for _ in range(chance.randrange(1, 4)):
            damaged[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        if chance.random() < 0.3:
            del damaged[chance.randrange(len(damaged)) :]
        try:
            found = read(bytes(damaged))
        except DamagedBatch:
            refused += 1
            continue
        shifted = {replace(record, offset=0) for record in found} - {replace(r, offset=0) for r in right}
        assert not shifted, "a value that was never written"
    assert refused > 2_000


@pytest.mark.parametrize("count", [15, 16, 17, 3_000])
def test_a_record_with_many_headers(count: int) -> None:
    headers = tuple((b"k%d" % n, None if n % 3 else b"v%d" % n) for n in range(count))
    made = Made((Record(1, headers=headers), Record(2), Record(3, headers=headers[:20])))
    assert read(made.bytes()) == list(made.records)


def test_headers_of_a_record_that_has_too_many_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_HEADERS", 3)
    written = [Record(n, headers=((b"k", b"v"),) * n) for n in range(6)]
    (batch,) = batches(Made(tuple(written)).bytes(), 0)
    found = records.read([(batch, batch.body)])
    lengths = [headers and len(headers) for headers in found.column("headers").to_pylist()]
    assert [0 if length == [] else length for length in lengths] == [0, 1, 2, 3, None, None]
    assert found.column("value").to_pylist() == [record.value for record in written]


def test_millions_of_headers_take_no_gigabytes() -> None:
    body = b"\0\0\0" + varint(-1) + varint(-1) + varint(4_000_000) + bytes(8_000_000)
    (batch,) = batches(Made((Record(1),)).bytes(), 0)
    tracemalloc.start()
    found = records.read([(batch, varint(len(body)) + body)])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.column("headers").null_count == 1
    assert peak < 50_000_000


def test_a_record_whose_many_headers_lie() -> None:
    made = Made((Record(1, headers=((b"k", b"v"),) * 40),))
    (batch,) = batches(made.bytes(), 0)
    for place in range(20, len(batch.body)):
        body = bytearray(batch.body)
        body[place] ^= 0x40
        try:
            found = records.read([(batch, bytes(body))])
        except DamagedBatch:
            continue
        assert len(found.column("headers")[0]) == 40
