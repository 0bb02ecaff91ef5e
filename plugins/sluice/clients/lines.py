"""Data rows of a CSV from its bytes, in constant memory: what a load is held against.

Counted without Spark on purpose: the proof must not ask the job that it checks. The first line is the
header; a row is a later line that is not blank. Lines end with LF. So a line break inside quotes makes two
rows here, as it does for the producer (``spark_jobs/common/producer/objects.py``).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

from sluice.clients.errors import Refused

GZIP_MAGIC = b"\x1f\x8b"
LONGEST_LINE = 64 * 1024 * 1024


def data_rows(chunks: Iterable[bytes], name: str, longest: int = LONGEST_LINE) -> int:
    """Rows of an object; ``name`` stands for it in messages.

    Gzip is told by its first bytes, not by the name. Raises Refused when there is no header line (an object
    of no bytes, or a blank first line), when gzip data ends early or is damaged, or when a line is longer
    than ``longest`` bytes.
    """
    lines = _lines(plain(chunks, name), name, longest)
    if not next(lines, b"").strip():
        raise Refused(f"{name}: has no header line; upload the file with one, or leave it out")
    return sum(1 for line in lines if line.strip())


def has_header(chunks: Iterable[bytes], name: str) -> bool:
    """Whether the first line is one; reads little more than that."""
    return bool(next(_lines(plain(chunks, name), name), b"").strip())


def plain(chunks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """The bytes, decompressed where they are gzip (of one or several members)."""
    stream = iter(chunks)
    head = b""
    while len(head) < len(GZIP_MAGIC):
        more = next(stream, None)
        if more is None:
            break
        head += more
    if head.startswith(GZIP_MAGIC):
        yield from _gunzip(head, stream, name)
        return
    yield head
    yield from stream


def _gunzip(head: bytes, stream: Iterator[bytes], name: str) -> Iterator[bytes]:
    member = zlib.decompressobj(wbits=31)
    data: bytes | None = head
    while data is not None:
        while data:
            if member.eof:
                # gzip(1) pads with zeros to a block; everything else after a member is another member.
                if not data.strip(b"\0"):
                    break
                member = zlib.decompressobj(wbits=31)
            try:
                yield member.decompress(data)
            except zlib.error as error:
                raise Refused(f"{name}: damaged gzip data ({error}); upload the file again") from error
            data = member.unused_data
        data = next(stream, None)
    if not member.eof:
        raise Refused(f"{name}: truncated gzip data, it ends before its end mark; upload the file again")


def _lines(chunks: Iterable[bytes], name: str, longest: int = LONGEST_LINE) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
        if len(rest) > longest:
            raise Refused(f"{name}: a line is longer than {longest} bytes; it is no CSV")
    if rest:
        yield rest
