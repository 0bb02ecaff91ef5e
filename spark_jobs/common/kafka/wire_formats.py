"""What a value that cannot be decoded seems to be: by its first bytes, for the reason of its rejection."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from sluice.core.decoding.wire_formats import PREFIXES


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
            for prefix, words in PREFIXES.items()
        ),
    )
