"""Values of a declaration: how a message shows one, and which no later step can carry."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Mapping
from datetime import date, time
from reprlib import Repr
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

# Longest value that a message shows.
MAX_SHOWN = 100
# Bounds of what later steps carry: Airflow's tables and forms, Kafka's configuration, recursive functions.
MAX_TEXT, MAX_KEY, MAX_DEPTH = 1_000, 100, 12
INTEGERS = range(-(2**63), 2**63)

# A key of a query whose value is a secret; another one's may be, if it is as long.
_SECRET_KEY = re.compile(r"auth|code|cred|key|pass|secret|sig|token", re.IGNORECASE)
_LONG = 16

_short = Repr()
_short.maxstring = _short.maxother = _short.maxlong = MAX_SHOWN
_short.maxlevel, _short.maxdict, _short.maxlist = 2, 3, 3


def shown(value: Any) -> str:
    """The value in one line, escaped and cut."""
    try:
        text = _short.repr(value)
    # A whole number of more digits than Python prints.
    except ValueError:
        text = f"a {type(value).__name__}"
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"


def shown_path(path: object) -> str:
    """A file's whole path, escaped only if it needs to be."""
    text = str(path)
    return text if text.isprintable() else repr(text)


def shown_address(address: str) -> str:
    """The address, or several with commas between them, as anyone may read it: without user and password,
    and of a query its keys alone, since tokens are in such values."""
    if "," in address and "://" in address:
        return ",".join(map(shown_address, address.split(",")))
    before, _, rest = address.rpartition("@")
    if "://" not in address:
        return rest
    try:
        parts = urlsplit(address)
    except ValueError:
        # No client can open it; what of it is a password is not known.
        return f"{address.partition('://')[0]}://***{rest if before else ''}"
    keys = [key for key, _ in parse_qsl(parts.query, keep_blank_values=True)]
    return urlunsplit(
        parts._replace(
            netloc=parts.netloc.rpartition("@")[2],
            query="&".join(f"{quote(key)}=***" for key in keys),
            fragment="",
        )
    )


def secrets_in(address: str) -> list[str]:
    """What :func:`shown_address` leaves out of an address and is a secret: its password, or without one its
    user, which is a token then; and of its query what is long, or is called one. As sent, and decoded."""
    try:
        parts = urlsplit(address)
        found = [parts.password or parts.username or ""]
    except ValueError:
        return []
    for pair in parts.query.split("&"):
        key, _, value = pair.partition("=")
        if _SECRET_KEY.search(key) or len(value) >= _LONG:
            found.append(value)
    return [text for one in found for text in dict.fromkeys((one, unquote(one))) if text]


def problems(value: Any, place: str = "", depth: int = 0) -> Iterator[str]:
    """What in a document of TOML no later step can carry, each with its keys and its ``Fix``."""
    if depth > MAX_DEPTH:
        yield f"{place}: nested deeper than {MAX_DEPTH} levels. Fix: write it flatter"
    elif isinstance(value, Mapping):
        for key, element in value.items():
            if not key or len(key) > MAX_KEY or not key.isprintable():
                fix = f"use 1 to {MAX_KEY} printable characters"
                yield f"{place} key {shown(key)}: cannot be a key. Fix: {fix}".lstrip()
            else:
                yield from problems(element, f"{place} {key}".lstrip(), depth + 1)
    elif isinstance(value, list):
        for element in value:
            yield from problems(element, place, depth + 1)
    elif problem := _problem(value):
        yield f"{place}: {shown(value)} {problem}"


def _problem(value: Any) -> str:
    if isinstance(value, str):
        if len(value) > MAX_TEXT:
            return f"has {len(value)} characters. Fix: use at most {MAX_TEXT}"
        # PostgreSQL, for one, stores no NUL character.
        if any(unicodedata.category(one) == "Cc" and one not in "\n\t" for one in value):
            return "has a control character. Fix: remove it"
    elif isinstance(value, int) and value not in INTEGERS:
        return "is out of range. Fix: use a number of at most 64 bits"
    elif isinstance(value, float) and not math.isfinite(value):
        return "is no number. Fix: write a finite number"
    # A datetime is a date.
    elif isinstance(value, date | time):
        return 'is a date or time of TOML, which nothing here takes. Fix: write it as a text, "2026-01-31"'
    return ""
