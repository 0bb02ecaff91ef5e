"""How long what took."""

from __future__ import annotations

import time
from collections.abc import Mapping


def rounded(took: Mapping[str, float], began: float) -> dict[str, float]:
    """Seconds by what took them, to a tenth, with the total since the clock read `began`."""
    return {name: round(value, 1) for name, value in {**took, "total": time.monotonic() - began}.items()}
