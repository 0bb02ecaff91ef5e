"""Texts that every reader can read: valid UTF-8, and for reasons also printable; and what a value that cannot
be decoded seems to be, for the reason of its rejection."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from sluice.core.decoding.texts import MAX_REASON
from sluice.core.decoding.wire_formats import PREFIXES

# Java's classes of characters that are not shown as such: controls, formats (such as those that turn the
# direction of a line), half surrogate pairs, unassigned ones, and separators other than the space.
_UNPRINTABLE = r"[\p{C}\p{Z}&&[^ ]]"
# Half a pair, by its escape. A backslash that is escaped itself is no part of one.
_HALF = r"\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]"


def unreadable_json(text: Column) -> Column:
    """Why no reader can read the texts of a JSON document as they were sent, or null. Java would replace the
    half of a surrogate pair by a question mark."""
    halves = F.replace(text, F.lit("\\\\"), F.lit("--")).rlike(_HALF)
    return F.coalesce(
        F.when(~F.is_valid_utf8(text), F.lit("not UTF-8")),
        F.when(
            (F.contains(text, F.lit("\\ud")) | F.contains(text, F.lit("\\uD"))) & halves,
            F.lit("a text has half of a surrogate pair (an escape of D800 to DFFF alone)"),
        ),
    )


def printable(text: Column) -> Column:
    """A reason as every reader can show it, whatever it quotes: UTF-8, at most MAX_REASON characters, and
    what is not printable by its number."""
    valid = F.make_valid_utf8(text)
    short = F.when(F.length(valid) > MAX_REASON, F.concat(F.left(valid, F.lit(MAX_REASON)), F.lit("…")))
    cut = F.coalesce(short, valid)
    escaped = F.transform(
        F.split(cut, ""),
        lambda one: F.when(one.rlike(_UNPRINTABLE), F.format_string("\\u%04x", F.ascii(one))).otherwise(one),
    )
    return F.when(cut.rlike(_UNPRINTABLE), F.array_join(escaped, "")).otherwise(cut)


def text_of(value: Column) -> Column:
    """Bytes as the text that they are in UTF-8, or else as SQL writes bytes: ``X'61FF'``."""
    text = value.cast("string")
    return F.when(F.is_valid_utf8(text), text).otherwise(F.concat(F.lit("X'"), F.hex(value), F.lit("'")))


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
