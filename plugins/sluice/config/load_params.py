"""The params of a load that choose its records, in one form, so that two runs of one run id can be compared.

Limits of a load (quarantine, timeouts) are not among them: each attempt applies its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def normalise(params: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """A value for each of ``defaults``, the form of the source: what is missing or empty has its default.

    ``objects`` are sorted, each once; with them ``source_prefix`` is None, since it chooses nothing. The
    result's own normal form is equal to it.
    """
    chosen = {
        name: default if _is_empty(params.get(name)) else params[name] for name, default in defaults.items()
    }
    if chosen.get("objects"):
        chosen |= {"objects": sorted(set(chosen["objects"])), "source_prefix": None}
    return chosen


def _is_empty(value: Any) -> bool:
    return value is None or value in ("", [])


def differences(recorded: Mapping[str, Any], requested: Mapping[str, Any]) -> list[str]:
    """A text for each param whose values differ, from two normal forms of one form."""
    return [
        f"{name} is {value!r}, the plan has {recorded[name]!r}"
        for name, value in requested.items()
        if value != recorded[name]
    ]
