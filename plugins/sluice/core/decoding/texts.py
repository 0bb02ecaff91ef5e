"""Texts for reasons, which every reader can show whatever they quote.

``spark_jobs.common.spark.texts`` gives the same for producers' rows, but for characters that only Java's or
only Python's version of Unicode has.
"""

from __future__ import annotations

MAX_REASON = 1_000
# Bytes of a value in a reason.
_MAX_QUOTED = 100


def printable(text: str) -> str:
    """A reason as every reader can show it: UTF-8, its first MAX_REASON characters and "…" if there are more,
    and what is not printable by its number, as in ``\\u000a``."""
    # Half surrogate pairs have no UTF-8.
    valid = text if text.isascii() else text.encode(errors="surrogatepass").decode(errors="replace")
    short = f"{valid[:MAX_REASON]}…" if len(valid) > MAX_REASON else valid
    if short.isprintable():
        return short
    # Not printable: Unicode's categories C (controls, formats such as those that turn the direction of a
    # line, unassigned ones) and Z (separators), but for the space.
    return "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in short)


def text_of(value: bytes) -> str:
    """Bytes as the text that they are in UTF-8, or else as SQL writes bytes: ``X'61FF'``."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"X'{value.hex().upper()}'"


def quoted(value: bytes) -> str:
    """Bytes for a reason, as :func:`text_of`; at most 100 of them."""
    return text_of(value[:_MAX_QUOTED])
