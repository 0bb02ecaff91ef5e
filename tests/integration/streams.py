"""The streams as the tests' stack runs them: as declared, with the tests' shorter times."""

from __future__ import annotations

from pathlib import Path

from sluice.config import overrides, stream, streams

OVERRIDES = Path(__file__).with_name("overrides.toml")


def load(name: str) -> stream.StreamSpec:
    """The declaration of stream ``name`` with OVERRIDES."""
    return streams.load(name, {overrides.VARIABLE: str(OVERRIDES)})
