"""What a value that cannot be decoded seems to be: by its first bytes, for the reason of its rejection."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

# From their documentation: "Wire format" (Confluent), "Single-object encoding" and "Object container files"
# (Avro specification), RFC 1952, RFC 8878.
_PREFIXES = {
    b"\xc3\x01": "starts with C3 01: Avro's single-object encoding",
    b"Obj\x01": "starts with Obj and 01: an Avro container file",
    b"\x03\x00": "starts with 03 00: the wire format of AWS Glue's schema registry",
    b"\x03\x05": "starts with 03 05: the wire format of AWS Glue's schema registry, compressed",
    b"\x1f\x8b": "starts with 1F 8B: gzip",
    b"\x28\xb5\x2f\xfd": "starts with 28 B5 2F FD: Zstandard",
}


def wire_format(value: Column) -> Column:
    """How the bytes are framed, null if that is not known. Not for what can be decoded, which may begin with
    the same bytes."""
    # Ids are numbered from 1; one above 16,777,215 is taken for something else.
    has_id = F.substring(value, 1, 2) == F.lit(b"\0\0")
    number = F.conv(F.hex(F.substring(value, 2, 4)), 16, 10)
    confluent = F.concat(
        F.lit("starts with 00 and a schema id ("), number, F.lit("): Confluent's wire format")
    )
    return F.coalesce(
        F.when(F.length(value) == 0, F.lit("it is empty")),
        F.when(has_id & (F.length(value) > 5) & (number != "0"), confluent),
        *(
            F.when(F.substring(value, 1, len(prefix)) == F.lit(prefix), F.lit(words))
            for prefix, words in _PREFIXES.items()
        ),
    )
