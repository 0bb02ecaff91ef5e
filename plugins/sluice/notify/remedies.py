"""Cause and fix of every error code; of a health's code those of the health."""

from __future__ import annotations

from collections.abc import Mapping

from sluice.core.error_codes import ErrorCode
from sluice.core.error_guide import components, loads, systems
from sluice.core.error_guide.guide import ErrorGuide, plain
from sluice.supervision.rules.guide import GUIDES
from sluice.supervision.rules.status import Health

# Code -> health: a component has one at a time.
HEALTHS: Mapping[ErrorCode, Health] = {
    ErrorCode[f"HEALTH_{h.name}"]: h for h in Health if f"HEALTH_{h.name}" in ErrorCode.__members__
}


def _of_health(health: Health) -> ErrorGuide:
    guide = GUIDES[health]
    section = f"[{health}](operating.md#{health.replace(' ', '-')})"
    return ErrorGuide(guide.meaning.removesuffix("."), f"{guide.way_out} See {section}")


ERRORS: Mapping[ErrorCode, ErrorGuide] = {
    **systems.ERRORS,
    **loads.ERRORS,
    **components.ERRORS,
    **{code: _of_health(health) for code, health in HEALTHS.items()},
}


def remedy(code: ErrorCode, stream: str) -> str:
    """The fix as plain text, with the pages that it links to."""
    return f"{plain(ERRORS[code].fix).replace('{stream}', stream)} (docs/errors.md, {code.value})"
