"""A drill's context without a stack."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.drills.drill import DrillContext


def context(**stream: Any) -> DrillContext:
    """With parts of a stream, and no background load."""
    made: Any = SimpleNamespace(**stream)
    nothing: Any = None
    return DrillContext(made, nothing, print, injected_at=1000.0)
