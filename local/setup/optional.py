"""Artifacts that few stacks need: set up by the command that needs one."""

from __future__ import annotations

import os
import subprocess

from local.base import REPO, SetupError
from local.setup.bootstrap import ensure_tools
from local.setup.cache import Artifact, registry


def ensure_registry() -> Artifact:
    """The schema registry; fetched if it is missing. Raises SetupError if that fails."""
    artifact = registry()
    if not artifact.exists():
        command = [str(ensure_tools()), "-m", "local.setup", "setup", "registry"]
        path = os.pathsep.join([str(REPO / "plugins"), str(REPO)])
        code = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, cwd=REPO).returncode
        if code != 0:
            raise SetupError(f"set-up of the schema registry: exit code {code}. Fix: see its output above")
    return artifact
