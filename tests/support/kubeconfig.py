"""A kubeconfig of a cluster that does not exist."""

from __future__ import annotations

from pathlib import Path

import yaml


def write(folder: Path) -> str:
    """Its path."""
    named = {"name": "test"}
    document = {
        "current-context": "test",
        "clusters": [named | {"cluster": {"server": "https://127.0.0.1:9"}}],
        "users": [named | {"user": {"token": "t"}}],
        "contexts": [named | {"context": {"cluster": "test", "user": "test"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return str(path)
