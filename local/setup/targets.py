"""Which artifacts there are, and from which inputs each is named. Standard library only."""

from __future__ import annotations

from pathlib import Path

from local.paths import REPO, cache
from local.setup.artifacts import Artifact, fingerprint, python_inputs

HERE = REPO / "local"
REQUIREMENTS = REPO / "requirements.txt"
JAR_HASHES = HERE / "jars.sha256"
MINIO_VERSION = "v0.0.0-20260212201848-7aac2a2c5b7c"


def environment() -> Artifact:
    """The Python environment of everything that runs."""
    return Artifact(cache(), "env", fingerprint(REQUIREMENTS.read_bytes(), *python_inputs()), hashed=False)


def jars(jar_set: str) -> Artifact:
    """The jars of `spark` or `kafka`."""
    pinned = "\n".join(f"{digest} {name}" for name, digest in sorted(pinned_jars(jar_set).items()))
    key = fingerprint((HERE / "ivy" / f"{jar_set}.xml").read_bytes(), pinned)
    return Artifact(cache(), f"jars-{jar_set}", key, hashed=True)


def minio() -> Artifact:
    """The MinIO server."""
    from os import uname

    return Artifact(cache(), "minio", fingerprint(MINIO_VERSION, uname().machine), hashed=True)


def pinned_jars(jar_set: str, hashes: Path = JAR_HASHES) -> dict[str, str]:
    """File name → SHA-256 of a jar set, from lines `<sha256>  <set>/<file>`."""
    found: dict[str, str] = {}
    for line in hashes.read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            digest, name = line.split()
            folder, _, file = name.partition("/")
            if folder == jar_set:
                found[file] = digest
    return found
