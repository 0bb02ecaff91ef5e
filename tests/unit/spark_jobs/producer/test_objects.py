"""Header and lines of source objects, from a body as botocore returns it."""

from __future__ import annotations

import gzip
import io
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3
from botocore.response import StreamingBody
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.common.producer import lines, objects
from spark_jobs.common.producer.lines import CorruptObject, SourceObject, blocks, header_line
from spark_jobs.common.producer.objects import Reading
from spark_jobs.common.producer.usual_rows import Column, Layout

SOURCE = SourceObject("s", "b", "k.csv", None, 2)
LAYOUT = Layout(2, (Column("a", "long", 0, True), Column("b", "string", 1, False)), "", (), ())


class Client:
    """A client of a bucket whose one object is ``data``."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def get_object(self, **request: Any) -> dict[str, Any]:
        raw: Any = urllib3.HTTPResponse(io.BytesIO(self.data), preload_content=False)
        return {"Body": StreamingBody(raw, len(self.data))}


def header(data: bytes, monkeypatch: pytest.MonkeyPatch) -> str:
    platform: Any = SimpleNamespace(s3=None)
    monkeypatch.setattr(lines, "connect", lambda s3: Client(data))
    return header_line(platform, SOURCE)


def rows(data: bytes) -> list[tuple[int, int, bytes]]:
    """Row, line and text."""
    return [
        (int(row), int(number), block.lines[at].rstrip(b"\r"))
        for block in blocks(Client(data), SOURCE)
        for at, (row, number) in enumerate(zip(block.rows, block.numbers, strict=True))
    ]


def rows_one_by_one(data: bytes) -> list[tuple[int, int, bytes]]:
    numbered = enumerate(io.BytesIO(data), start=1)
    texts = [(n, raw.rstrip(b"\r\n")) for n, raw in numbered if n > 1 and raw.strip()]
    return [(row, number, text) for row, (number, text) in enumerate(texts)]


@pytest.mark.parametrize(
    "data", [b"\xef\xbb\xbfa,b\r\n1,2\r\n\n3,4", gzip.compress(b"a,b\n1,2\n\n3,4\n")], ids=["plain", "gzip"]
)
def test_the_header_and_the_rows_of_an_object(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    assert header(data, monkeypatch) == "a,b"
    assert rows(data) == [(0, 2, b"1,2"), (1, 4, b"3,4")]


@given(
    st.lists(st.sampled_from([b"1,2", b",", b'"', b"\r", b" ", b"\t\x0b", b"\xff", b"\n", b"\n\n", b"\r\n"]))
)
def test_rows_and_lines_are_numbered_as_if_read_one_by_one(parts: list[bytes]) -> None:
    data = b"".join(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", 4)
        patch.setattr(lines, "READ_BYTES", 3)
        assert rows(data) == rows_one_by_one(data)


@pytest.mark.parametrize(
    "data",
    [b"", b"\n1,2\n", b"x" * lines.HEAD_BYTES + b"\n", b"\x1f", gzip.compress(b"a,b\n")[:-9]],
    ids=["empty", "blank", "long", "one byte", "truncated"],
)
def test_an_object_without_a_header_line_is_corrupt(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CorruptObject, match=r"s3://b/k\.csv"):
        header(data, monkeypatch)


def test_a_truncated_gzip_is_corrupt() -> None:
    with pytest.raises(CorruptObject, match="broke off after"):
        rows(gzip.compress(b"a,b\n" + b"1,2\n" * 9)[:-9])


def sent(reading: Reading, data: bytes) -> list[tuple[int, int, int, Any]]:
    """Row, target partition, sequence, the record's first value."""
    return sorted(
        (row["row"], row["target_partition"], row["sequence"], row["record"] and row["record"]["a"])
        for batch in reading.usual_rows(Client(data))
        for row in batch.to_pylist()
    )


def rest(reading: Reading, data: bytes) -> list[tuple[int, int, str, bool]]:
    """Row, line, text, and whether it is undecodable; from the row on at which the usual ones end."""
    ends = [row for row, _, _, value in sent(reading, data) if value is None]
    if not ends:
        return []
    reading = replace(reading, first_other=ends[0])
    return [
        (row["row"], row["line"], row["text"], row["undecodable"])
        for batch in reading.rest(Client(data))
        for row in batch.to_pylist()
    ]


def test_an_object_is_read_until_a_row_that_may_be_malformed_and_from_there() -> None:
    data = b'a,b\n0,x\n1,x\n2,x\n3,"x"\n\n4,x\nbad,x\n'
    reading = Reading(SOURCE, LAYOUT)
    assert sent(reading, data) == [(0, 0, 0, 0), (1, 1, 0, 1), (2, 0, 1, 2), (3, 1, 1, None)]
    assert rest(reading, data) == [(3, 5, '3,"x"', False), (4, 7, "4,x", False), (5, 8, "bad,x", False)]
    usual = data[: data.index(b"3")]
    assert len(sent(reading, usual)) == 3
    assert rest(reading, usual) == []


@given(st.lists(st.sampled_from([b"1,x\n", b'2,"x"\n', b"bad,x\n", b"\n", b"3,\xff\n"]), max_size=12))
def test_each_row_is_read_once_wherever_blocks_end(parts: list[bytes]) -> None:
    data, reading = b"a,b\n" + b"".join(parts), Reading(SOURCE, LAYOUT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", 9)
        patch.setattr(lines, "READ_BYTES", 4)
        patch.setattr(objects, "LINES_PER_BATCH", 2)
        usual = [row for row, _, _, value in sent(reading, data) if value is not None]
        assert [*usual, *(row for row, *_ in rest(reading, data))] == list(range(len(rows(data))))


def test_bytes_that_are_not_utf8_are_escaped() -> None:
    found = rest(Reading(SOURCE, LAYOUT), b"a,b\n0,\xff\n1,\xc3\xa4\n")
    assert found == [(0, 2, "0,\\xff", True), (1, 3, "1,ä", False)]


@given(
    st.lists(st.sampled_from([b"x" * 4, b"y", b",", b"\n", b" "]), max_size=20).map(b"".join),
    st.integers(1, 6),
    st.integers(2, 9),
)
def test_of_a_line_without_end_little_more_than_its_limit_is_kept_wherever_chunks_end(
    data: bytes, read: int, longest: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "MAX_LINE_BYTES", longest)
        patch.setattr(lines, "READ_BYTES", read)
        kept = b"".join(lines._chunks(io.BufferedReader(io.BytesIO(data))))
    for line, found in zip(data.split(b"\n"), kept.split(b"\n"), strict=True):
        # Enough to tell that it is too long, of which a chunk may have more.
        assert line.startswith(found)
        assert min(len(line), longest + 1) <= len(found) <= longest + 1 + read


def test_a_line_without_end_is_one_row_that_is_cut_and_the_rows_behind_it_are_read() -> None:
    data = b"a,b\n0,x\n" + b"1," + b"x" * 300 + b"\n2,x\n"
    with pytest.MonkeyPatch.context() as patch:
        for module in (lines, objects):
            patch.setattr(module, "MAX_LINE_BYTES", 100)
        reading = Reading(SOURCE, replace(LAYOUT, max_value_bytes=90))
        assert sent(reading, data) == [(0, 0, 0, 0), (1, 1, 0, None)]
        found = [
            row for batch in replace(reading, first_other=1).rest(Client(data)) for row in batch.to_pylist()
        ]
    assert [(row["row"], row["line"], len(row["text"]), row["cut"]) for row in found] == [
        (1, 3, 100, True),
        (2, 4, 3, False),
    ]
