"""Artifacts that few stacks need: set up by the command that needs one."""

from __future__ import annotations

import os
import subprocess

from local.base import REPO, SetupError
from local.setup.bootstrap import ensure_tools
from local.setup.cache import Artifact, jars, registry

REGISTRY, REST_CATALOG = "registry", "rest-catalog"


def ensure_registry() -> Artifact:
    """The schema registry; fetched if it is missing. Raises SetupError if that fails."""
    return _ensure(registry(), REGISTRY, "the schema registry")


def ensure_rest_catalog() -> Artifact:
    """The jars of Iceberg's REST catalog; fetched if they are missing. Raises SetupError if that fails."""
    return _ensure(jars(REST_CATALOG), REST_CATALOG, "the REST catalog")


def _ensure(artifact: Artifact, name: str, title: str) -> Artifact:
    if not artifact.exists():
        command = [str(ensure_tools()), "-m", "local.setup", "setup", name]
        path = os.pathsep.join([str(REPO / "plugins"), str(REPO)])
        code = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, cwd=REPO).returncode
        if code != 0:
            raise SetupError(f"set-up of {title}: exit code {code}. Fix: see its output above")
    return artifact
