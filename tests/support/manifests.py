"""Manifests of ``k8s/`` as they are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


def read(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text()))


def named(peers: list[dict[str, Any]]) -> set[str]:
    """The components that peers of a rule select."""
    found = set[str]()
    for peer in peers:
        selector = peer["podSelector"]
        found |= set(selector.get("matchLabels", {}).values())
        found |= {value for one in selector.get("matchExpressions", ()) for value in one["values"]}
    return found
