"""Source objects into keys and Avro bodies, from a body as botocore returns it."""

from __future__ import annotations

import gzip
import io
import random
from collections import Counter
from dataclasses import replace
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any

import fastavro
import pytest
import urllib3
from botocore.exceptions import ClientError
from botocore.response import StreamingBody

from sluice.config import streams
from sluice.config.csv_reading import CsvReading
from sluice.core.csv.form import Dialect, Form, Rules
from sluice.core.csv.header import InvalidHeader
from sluice.core.csv.records import blocks
from sluice.core.errors import Missing, Refused, Unreachable
from spark_jobs.common.producer import objects, source_object
from spark_jobs.common.producer.source_object import WHOLE, CorruptObject, Reading, Share, SourceObject
from tests.support.raising import raising
from tests.support.s3_answer import object_answer

SOURCE = SourceObject("s", "b", "k.csv", None, 3, 0)
SCHEMA = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": ["null", "string"]}],
}
TAXI = streams.load("nyc_taxi")
SAMPLE = Path(__file__).parents[4] / "samples" / "nyc_taxi" / "taxi-data.csv.gz"


class Client:
    """A client of a bucket whose one object is ``data``."""

    def __init__(self, data: bytes) -> None:
        self.data, self.sent = data, list[int]()

    def get_object(self, **request: Any) -> dict[str, Any]:
        if request.get("Range") and not self.data:
            raise ClientError({"Error": {"Code": "InvalidRange"}}, "GetObject")
        answer = object_answer(self.data, request.get("Range", ""))
        self.sent.append(answer["ContentLength"])
        raw: Any = urllib3.HTTPResponse(answer["Body"], preload_content=False)
        return answer | {"Body": StreamingBody(raw, answer["ContentLength"])}


def reading(data: bytes, form: Form | None = None, most: int = 10**6) -> Reading:
    csv = CsvReading(form or Form(), Rules(), SCHEMA, "")
    names = SOURCE.column_names(Client(data), csv.form)
    return Reading(SOURCE, csv.form, csv.layout(names, SOURCE.uri, most))


def sent(data: bytes, form: Form | None = None) -> dict[int, tuple[int, int, Any]]:
    """Row -> target partition, sequence, the record's first value; of those that are not rejected."""
    parsed = fastavro.parse_schema(SCHEMA)
    return {
        row["row"]: (
            row["target_partition"],
            row["sequence"],
            fastavro.schemaless_reader(io.BytesIO(row["value"]), parsed, None)["a"],  # type: ignore[index, call-overload]
        )
        for batch in reading(data, form).sent(Client(data))
        for row in batch.to_pylist()
        if row["value"] is not None
    }


def rejected(data: bytes, form: Form | None = None) -> dict[int, tuple[int, bytes, str]]:
    """Row -> line, bytes, reason."""
    return {
        row["row"]: (row["line"], row["text"], row["reason"])
        for batch in reading(data, form).rejected(Client(data))
        for row in batch.to_pylist()
    }


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_a_row_has_its_number_and_the_sequence_number_of_its_target(pack: Any) -> None:
    data = pack(b'\xef\xbb\xbfa,b\r\n0,x\r\n\r\n1,"x\r\ny"\r\nbad,x\r\n3,x\r\n4,x\r\n5,x\r\n,,\r\n8,\xff')
    assert sent(data) == {0: (0, 0, 0), 1: (1, 0, 1), 3: (0, 1, 3), 4: (1, 1, 4), 5: (2, 0, 5)}
    assert rejected(data) == {
        2: (6, b"bad,x", "column a: 'bad' is not a long"),
        6: (10, b",,", "the row has 3 columns, the header names 2, and the last is empty"),
        7: (11, b"8,\xff", "the row is not UTF-8"),
    }


def test_sequences_count_the_rows_that_are_sent_wherever_blocks_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 60)
    chosen = random.Random(1)  # noqa: S311
    lines = [chosen.choice(["1,x", "bad,x", '2,"x\ny"', "3"]) for _ in range(400)]
    data = "\n".join(["a,b", *lines]).encode()
    found, places = sent(data), Counter[int]()
    for row, line in enumerate(lines):
        is_good = line[0] in "12"
        assert (row in found) is is_good
        if is_good:
            assert found[row][:2] == (row % 3, places[row % 3])
            places[row % 3] += 1
    assert sorted(rejected(data)) == [row for row in range(400) if row not in found]


def test_tasks_that_share_an_object_send_its_rows_as_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 60)
    chosen = random.Random(2)  # noqa: S311
    lines = [chosen.choice(["1,x", "bad,x", '2,"x\ny"', "3"]) for _ in range(200)]
    data = "\n".join(["a,b", *lines]).encode()

    def rows(share: Share) -> list[dict[str, Any]]:
        batches = reading(data).sent(Client(data), share)
        return [row for batch in batches for row in batch.to_pylist()]

    whole = sorted(rows(WHOLE), key=itemgetter("row"))
    assert len(whole) == 200
    for count in (2, 3):
        shared = [rows(Share(number, count)) for number in range(count)]
        assert sorted(chain(*shared), key=itemgetter("row")) == whole
        targets = [{row["target_partition"] for row in part} for part in shared]
        assert targets == [{target for target in range(3) if target % count == n} for n in range(count)]


def test_only_a_large_object_is_shared_by_as_many_tasks_as_it_takes_of_all() -> None:
    large = objects.SHARED_BYTES

    def of(tasks: int, *sizes: int) -> list[tuple[int, int]]:
        found = objects.shares([replace(SOURCE, size=size) for size in sizes], tasks)
        return [(number, share.of) for number, share in found]

    assert of(8, large) == [(0, 1)]
    assert of(2, large + 1) == [(0, 2), (0, 2)]
    # No more than target partitions.
    assert of(8, large + 1) == [(0, 3), (0, 3), (0, 3)]
    assert of(2, *[2 * large] * 3) == [(0, 1), (1, 1), (2, 1)]
    assert of(2, 9 * large, large) == [(0, 2), (0, 2), (1, 1)]
    assert of(2, 0) == [(0, 1)]
    assert of(2) == []


def test_files_without_a_header_have_the_declared_names() -> None:
    form = Form(Dialect(separator=";"), names=("b", "a"))
    assert sent(b"x;1\ny;2\n", form) == {0: (0, 0, 1), 1: (1, 0, 2)}


def test_lines_above_the_header_are_left_out_and_count_as_lines() -> None:
    data = b'Report of "May\n\na,b\n1,x\ny,z\n'
    form = Form(skip_lines=2)
    assert SOURCE.column_names(Client(data), form) == ("a", "b")
    assert sent(data, form) == {0: (0, 0, 1)}
    assert rejected(data, form) == {1: (5, b"y,z", "column a: 'y' is not a long")}
    # Declared names in the header's place.
    named = Form(names=("a", "b"), skip_lines=3)
    assert sent(data, named) == {0: (0, 0, 1)}
    assert [line for line, *_ in rejected(data, named).values()] == [5]


def test_utf16_is_seen_and_named_when_it_has_no_mark() -> None:
    text = "a,b\r\n1,ä\r\n"
    assert sent(text.encode("utf-16")) == {0: (0, 0, 1)}
    assert sent(text.encode("utf-16-be"), Form(encoding="utf-16-be")) == {0: (0, 0, 1)}
    with raising(InvalidHeader, "s3://b/k.csv", "UTF-16", "encoding"):
        sent(text.encode("utf-16-le"))


def test_a_row_without_end_is_cut_and_the_rows_behind_it_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 30)
    monkeypatch.setattr(blocks, "MAX_RECORD_BYTES", 100)
    data = b"a,b\n0,x\n" + b"1," + b"x" * 300 + b"\n2,x\n"
    assert sorted(sent(data)) == [0, 2]
    ((row, (line, text, reason)),) = rejected(data).items()
    assert (row, line, len(text)) == (1, 3, 100)
    assert reason.startswith("too large: the row has more than 100 bytes")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no header line"),
        (b"\n\n", "no header line"),
        (b"x" * 300_000 + b"\n", "no header line"),
        (gzip.compress(b"a,b\n" * 9)[:-9], "truncated packed data"),
        (b"PK\x03\x04" + bytes(90), "it is a zip archive"),
    ],
    ids=["empty", "blank", "long", "truncated", "zip"],
)
def test_an_object_that_cannot_be_read_is_corrupt(data: bytes, words: str) -> None:
    with raising(CorruptObject, "s3://b/k.csv", words, "Fix: "):
        list(reading(data).sent(Client(data)))


def test_a_truncated_gzip_is_corrupt_also_behind_its_header() -> None:
    lines = b"".join(b"%d,%d\n" % (n, n * n) for n in range(400_000))
    whole = gzip.compress(b"a,b\n" + lines)
    found = reading(whole)
    with raising(CorruptObject, "s3://b/k.csv", "truncated packed data"):
        list(found.sent(Client(whole[:-9])))


def test_an_object_with_a_quote_that_swallows_lines_is_no_row_in_quarantine() -> None:
    data = b'a,b\n1,x\n2,"5 disk\n3,x\n4,x\n'
    with raising(CorruptObject, "s3://b/k.csv", "line 3", "3 lines", "never closed"):
        list(reading(data).sent(Client(data)))


def test_every_row_of_the_sample_is_sent() -> None:
    data, csv = SAMPLE.read_bytes(), CsvReading.of(TAXI)
    names = SOURCE.column_names(Client(data), csv.form)
    batches = list(Reading(SOURCE, csv.form, csv.layout(names, "x", 10**6)).sent(Client(data)))
    values = [value for batch in batches for value in batch["value"].to_pylist()]
    assert (len(values), None in values) == (29_999, False)
    parsed: Any = fastavro.parse_schema(dict(csv.schema))
    rides: list[Any] = [fastavro.schemaless_reader(io.BytesIO(value), parsed, None) for value in values]
    assert sum(ride["total_amount"] < 0 for ride in rides) == 19
    text = gzip.decompress(data).decode().splitlines()[1:]
    assert sorted(str(ride["trip_distance"]) for ride in rides) == sorted(
        str(float(line.split(",")[4])) for line in text
    )


MIXED = b"a,b\n1,first\rsecond\n2,ok\n"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (MIXED, ["row 0 (line 2) ends with a CR alone", "line_ends = 'lf'"]),
        (MIXED.replace(b"\n", b"\r\n"), ["row 0 (line 2) ends with a CR alone", "line_ends = 'lf'"]),
        (b"a,b\r1,x\n2,y\r", ["row 0 (line 2) ends with LF or CRLF", "line_ends = 'cr'"]),
        (b"a,b\n" + b"1,x\n" * 99 + b"2,y\r3,z\n", ["row 99 (line 101)"]),
    ],
)
def test_a_file_of_two_kinds_of_line_ends_is_refused(
    data: bytes, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 8)
    with raising(CorruptObject, "s3://b/k.csv: ", *words):
        sent(data)


def test_with_declared_line_ends_other_breaks_are_characters() -> None:
    form = Form(Dialect(line_ends="lf"))
    assert sorted(sent(MIXED, form)) == [0, 1]
    rows = reading(MIXED, form).sent(Client(MIXED))
    assert b"first\rsecond" in b"".join(
        value or b"" for batch in rows for value in batch["value"].to_pylist()
    )
    # A blank line that ends otherwise is none of these: Python writes CR CR LF on Windows.
    assert sorted(sent(b"a,b\r\r\n1,x\r\r\n2,y\r\r\n")) == [0, 1]
    bad = b"a,b\nx,1\r2\n3,4\n"
    assert rejected(bad, form) == {0: (2, b"x,1\r2", "column a: 'x' is not a long")}


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_of_an_object_a_range_is_read_for_its_header(pack: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = random.Random(2)  # noqa: S311
    lines = b"".join(b"%d,%d\n" % (n, chosen.getrandbits(40)) for n in range(40_000))
    client = Client(pack(b"a,b\n" + lines))
    assert SOURCE.column_names(client, Form()) == ("a", "b")
    assert client.sent == [min(len(client.data), 256 * 1024)]
    # A header that the range cuts is read from the whole object.
    monkeypatch.setattr(source_object, "HEADER_BYTES", 4)
    client = Client(b"\n\na,bc\n1,2\n")
    assert SOURCE.column_names(client, Form()) == ("a", "bc")
    assert client.sent == [4, len(client.data)]


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        ("NoSuchVersion", Missing, ["version v1", "deleted since it was planned", "Fix: restore it"]),
        ("AccessDenied", Refused, ["version v1", "S3 denies access", "Fix: "]),
        ("SlowDown", Unreachable, ["version v1", "SlowDown"]),
    ],
)
def test_an_object_that_s3_does_not_give_is_named(
    answer: str, error: type[Exception], words: list[str]
) -> None:
    class Broken:
        def get_object(self, **_: Any) -> Any:
            raise ClientError({"Error": {"Code": answer}}, "GetObject")

    source = replace(SOURCE, version_id="v1")
    with raising(error, "s3://b/k.csv", *words):
        source.column_names(Broken(), Form())
    with raising(error, "s3://b/k.csv", *words):
        next(source.chunks(Broken(), "utf-8"))
