"""JSON that others wrote: read in a time and a depth that have bounds."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from sluice.core.decoding.json.document import deepest
from sluice.core.registry.errors import RefusedSchema

# Bytes of one schema's text, and how deep its objects and lists are nested: a record in a
# record takes three, or four if it may be null, and a table has at most 50 levels.
MAX_TEXT_BYTES = 1 << 20
MAX_NESTING = 208


def read(text: str, what: str) -> Any:
    """The document of a text. Raises RefusedSchema, naming ``what``, for one that is longer than
    MAX_TEXT_BYTES or nested deeper than MAX_NESTING, and for one that is no JSON."""
    check_size(text, what)
    depth = deepest(text)
    if depth > MAX_NESTING:
        raise RefusedSchema(f"{what} is nested {depth} levels deep, more than {MAX_NESTING}")
    try:
        return json.loads(text, parse_constant=_no_constant)
    # A number of thousands of digits is a ValueError, too.
    except ValueError as error:
        raise RefusedSchema(f"{what} is not JSON: {error}") from error


def check_size(text: str, what: str) -> None:
    """Raises RefusedSchema for more than MAX_TEXT_BYTES."""
    # No text has fewer bytes than characters.
    size = len(text) if len(text) > MAX_TEXT_BYTES else len(text.encode(errors="surrogatepass"))
    if size > MAX_TEXT_BYTES:
        raise RefusedSchema(f"{what} has {size} bytes, more than {MAX_TEXT_BYTES}")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
