"""A file's bytes as UTF-8, by its declared encoding or its byte-order mark."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator

from sluice.core.csv.form import ENCODINGS
from sluice.core.error_codes import ErrorCode

_UTF8_BOM = codecs.BOM_UTF8
_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
# Bytes that tell which mark a file begins with.
_MARK_BYTES = 3
_SURROGATES = "sluice-surrogates"


def _surrogates(error: UnicodeError) -> tuple[str, int]:
    """Lone surrogates in the place of bytes that are no text: in UTF-8 they are none either, so the row that
    has them is rejected, as one of a UTF-8 file with such bytes is."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\udcff" * (error.end - error.start), error.end


codecs.register_error(_SURROGATES, _surrogates)


def as_utf8(chunks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """The chunks in UTF-8, without a byte-order mark. A mark counts more than ``encoding``, one of
    ENCODINGS."""
    source = iter(chunks)
    head = b""
    for chunk in source:
        head += chunk
        if len(head) >= _MARK_BYTES:
            break
    if head.startswith(_UTF8_BOM):
        yield head[len(_UTF8_BOM) :]
        yield from source
        return
    mark = next((mark for mark in _MARKS if head.startswith(mark)), b"")
    codec = _MARKS[mark] if mark else ENCODINGS[encoding]
    if codec == "utf-8":
        yield head
        yield from source
        return
    decoder = codecs.getincrementaldecoder(codec)(_SURROGATES)
    yield _encoded(decoder.decode(head[len(mark) :]))
    for chunk in source:
        yield _encoded(decoder.decode(chunk))
    yield _encoded(decoder.decode(b"", final=True))


def no_utf16(head: bytes, encoding: str, has_separators: bool) -> str:
    """Why a file that begins with ``head`` is not of a declared UTF-16; empty if it may be, has a mark, or
    another encoding is declared. ``has_separators``: each of its rows has one, which has a zero."""
    codec = ENCODINGS[encoding]
    if not codec.startswith("utf-16") or len(head) < 2 or head.startswith((_UTF8_BOM, *_MARKS)):
        return ""
    zeros = head[0::2].count(0), head[1::2].count(0)
    if zeros == (0, 0) and (has_separators or _is_utf8(head)):
        return "it has no zeros, as UTF-16 has"
    other = "utf-16-be" if codec == "utf-16-le" else "utf-16-le"
    is_other = zeros[0] > zeros[1] if codec == "utf-16-le" else zeros[1] > zeros[0]
    return f"its zeros stand where those of {other} are" if is_other else ""


def which_utf16(text: bytes) -> str:
    """The encoding of a text with zeros, most of whose characters are ASCII's."""
    return "utf-16-le" if text[1::2].count(0) >= text[0::2].count(0) else "utf-16-be"


def no_single_bytes(head: bytes, encoding: str) -> str:
    """Why a file that begins with ``head`` is not of a declared encoding of one byte per character, which
    takes any bytes: those of UTF-8 give other texts. Empty if it may be, has a mark, or another encoding is
    declared."""
    if ENCODINGS[encoding].startswith("utf") or head.startswith((_UTF8_BOM, *_MARKS)):
        return ""
    return "" if head.isascii() or not _is_utf8(head) else "its bytes are UTF-8"


class OtherEncoding(ValueError):
    """A file that is not of its declared encoding; the text says how it is told, and the way on."""

    code = ErrorCode.CORRUPT_OBJECT


def of_single_bytes(chunks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """The chunks. Raises OtherEncoding at their end as :func:`no_single_bytes` tells of them all: what it is
    given of a large file may be ASCII alone."""
    decoder, head, is_other = codecs.getincrementaldecoder("utf-8")(), b"", False
    is_open = not ENCODINGS[encoding].startswith("utf")
    for chunk in chunks:
        # Without a look at most of what is ASCII, or at what follows the first bytes that are not UTF-8.
        head = head if len(head) >= _MARK_BYTES else head + chunk[:_MARK_BYTES]
        if is_open and (is_other or not chunk.isascii()):
            try:
                decoder.decode(chunk)
                is_other = True
            except UnicodeDecodeError:
                is_open = False
        yield chunk
    is_cut = bool(decoder.getstate()[0])
    if is_open and is_other and not is_cut and not head.startswith((_UTF8_BOM, *_MARKS)):
        raise OtherEncoding(
            f"its bytes are UTF-8, and [csv] encoding is {encoding!r}, so texts of it are other ones in the "
            'table. Fix: declare [csv] encoding = "utf-8", or save the file in that one; trigger action '
            "revert of the change DAG with the load, upload the file again, and load it with "
            "load_changed_objects"
        )


def _is_utf8(head: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
