"""How undecodable values seem to be framed."""

from __future__ import annotations

import pytest

from sluice.core.decoding.wire_formats import wire_format


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"", "it is empty"),
        (b"\0\0\0\0\x01x", "starts with 00 and a schema id (1): Confluent's wire format"),
        (b"\0\0\xff\xff\xffx", "starts with 00 and a schema id (16777215): Confluent's wire format"),
        (b"\xc3\x01", "starts with C3 01: Avro's single-object encoding"),
        (b"Obj\x01\x02", "starts with Obj and 01: an Avro container file"),
        (b"\x03\x00" + bytes(16), "starts with 03 00: the wire format of AWS Glue's schema registry"),
        (b"\x03\x05", "starts with 03 05: the wire format of AWS Glue's schema registry, compressed"),
        (b"\x1f\x8b\x08", "starts with 1F 8B: gzip"),
        (b"\x28\xb5\x2f\xfd\0", "starts with 28 B5 2F FD: Zstandard"),
    ],
)
def test_a_known_frame_is_named(value: bytes, words: str) -> None:
    assert wire_format(value) == words


@pytest.mark.parametrize(
    "value",
    [
        b"{",
        b"\0",
        b"\0\0\0\0\x01",  # an id and nothing behind it
        b"\0\0\0\0\0x",  # ids are numbered from 1
        b"\0\x01\0\0\0x",  # above 16,777,215
        b"Obj",
        b"\xc3",
        b"\x28\xb5\x2f",
    ],
)
def test_another_one_is_not(value: bytes) -> None:
    assert wire_format(value) is None
