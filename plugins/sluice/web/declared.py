"""The stream that an address names."""

from __future__ import annotations

from fastapi import HTTPException

from sluice.config.stream import StreamSpec
from sluice.config.streams import Declared
from sluice.web.formats import public


def find_stream(known: Declared, stream: str) -> StreamSpec:
    """Raises HTTPException: 503 with the reason if its declaration is invalid, 404 if there is none."""
    if reason := known.invalid.get(stream):
        raise HTTPException(503, public(reason))
    for spec in known.specs:
        if spec.name == stream:
            return spec
    raise HTTPException(404, f"no stream {stream!r}")
