"""What a value that cannot be decoded seems to be: by its first bytes, for the reason of its rejection."""

from __future__ import annotations

# First bytes -> the words of a reason; Spark's columns use them, too. From their documentation: "Wire format"
# (Confluent), "Single-object encoding" and "Object container files" (Avro specification), RFC 1952, RFC 8878.
PREFIXES = {
    b"\xc3\x01": "starts with C3 01: Avro's single-object encoding",
    b"Obj\x01": "starts with Obj and 01: an Avro container file",
    b"\x03\x00": "starts with 03 00: the wire format of AWS Glue's schema registry",
    b"\x03\x05": "starts with 03 05: the wire format of AWS Glue's schema registry, compressed",
    b"\x1f\x8b": "starts with 1F 8B: gzip",
    b"\x28\xb5\x2f\xfd": "starts with 28 B5 2F FD: Zstandard",
}


def wire_format(value: bytes) -> str | None:
    """How the bytes are framed, None if that is not known. Not for what can be decoded, which may begin with
    the same bytes."""
    if not value:
        return "it is empty"
    # Ids are numbered from 1; one above 16,777,215 is taken for something else.
    schema_id = int.from_bytes(value[1:5], "big")
    if value.startswith(b"\0\0") and len(value) > 5 and schema_id:
        return f"starts with 00 and a schema id ({schema_id}): Confluent's wire format"
    return next((words for prefix, words in PREFIXES.items() if value.startswith(prefix)), None)
