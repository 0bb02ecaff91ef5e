"""Header and lines of source objects, from a body as botocore returns it."""

from __future__ import annotations

import gzip
import io
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3
from botocore.response import StreamingBody

from spark_jobs.common.producer import objects
from spark_jobs.common.producer.objects import CorruptObject, SourceObject, header_line

SOURCE = SourceObject("s", "b", "k.csv", None, 2)


class Client:
    """A client of a bucket whose one object is ``data``."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def get_object(self, **request: Any) -> dict[str, Any]:
        raw: Any = urllib3.HTTPResponse(io.BytesIO(self.data), preload_content=False)
        return {"Body": StreamingBody(raw, len(self.data))}


def header(data: bytes, monkeypatch: pytest.MonkeyPatch) -> str:
    platform: Any = SimpleNamespace(s3=None)
    monkeypatch.setattr(objects, "connect", lambda s3: Client(data))
    return header_line(platform, SOURCE)


def rows(data: bytes) -> list[str]:
    return [text for batch in objects._lines_of(Client(data), SOURCE) for text in batch["text"].to_pylist()]


@pytest.mark.parametrize(
    "data", [b"\xef\xbb\xbfa,b\r\n1,2\r\n\n3,4", gzip.compress(b"a,b\n1,2\n\n3,4\n")], ids=["plain", "gzip"]
)
def test_the_header_and_the_rows_of_an_object(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    assert header(data, monkeypatch) == "a,b"
    assert rows(data) == ["1,2", "3,4"]


@pytest.mark.parametrize(
    "data",
    [b"", b"\n1,2\n", b"x" * objects.HEAD_BYTES + b"\n", b"\x1f", gzip.compress(b"a,b\n")[:-9]],
    ids=["empty", "blank", "long", "one byte", "truncated"],
)
def test_an_object_without_a_header_line_is_corrupt(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CorruptObject, match=r"s3://b/k\.csv"):
        header(data, monkeypatch)


def test_a_truncated_gzip_is_corrupt() -> None:
    with pytest.raises(CorruptObject, match="broke off"):
        rows(gzip.compress(b"a,b\n" + b"1,2\n" * 9)[:-9])
