"""Artifacts of the cache: directories that are complete or missing (standard library only).

A directory is named by a hash of its inputs. Its manifest of files, sizes and, if `hashed`, SHA-256 is
written last: an incomplete or changed artifact is made again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from local import base
from local.base import REPO, SetupError, cache

MANIFEST = ".manifest.json"


def fingerprint(*inputs: str | bytes) -> str:
    """16 hex digits over the inputs, in order; each is length-prefixed, so that no two lists collide."""
    digest = hashlib.sha256()
    for item in inputs:
        data = item.encode() if isinstance(item, str) else item
        digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()[:16]


def python_inputs() -> tuple[str, ...]:
    """The inputs of a virtual environment besides its requirements: the interpreter's version and folder."""
    return (sys.version, os.path.realpath(sys.base_prefix), os.uname().machine)


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Artifact:
    """One directory of the cache; `key`: the hash of its inputs.

    `hashed`: check the content at each start, not only the sizes (too slow for 40,000 files).
    """

    root: Path
    name: str
    key: str
    hashed: bool

    @property
    def path(self) -> Path:
        return self.root / f"{self.name}-{self.key}"

    def exists(self) -> bool:
        return self.path.exists()

    def damage(self) -> str | None:
        """The reason why it cannot be used; None if it is complete."""
        try:
            listed = json.loads((self.path / MANIFEST).read_text())
        except FileNotFoundError:
            return "it is incomplete" if self.exists() else "it is missing"
        except ValueError:
            return f"{MANIFEST} is not readable as JSON"
        for name, (size, digest) in listed.items():
            path = self.path / name
            try:
                found = path.stat().st_size
            except OSError as error:
                return f"{name}: {error.strerror}"
            if found != size:
                return f"{name} has {found} bytes instead of {size}"
            if self.hashed and sha256(path) != digest:
                return f"{name} has another SHA-256 than in {MANIFEST}"
        return None

    def ensure(
        self, make: Callable[[Path], None], say: Callable[[str], None], in_place: bool = False
    ) -> None:
        """Make the artifact unless it is complete; the caller holds the lock of the cache.

        `make(folder)` fills a temporary sibling that is then renamed, or with `in_place` the final folder
        (virtual environments contain absolute paths). Its errors leave no complete artifact.
        """
        damage = self.damage()
        if damage is None:
            return
        if self.exists():
            say(f"{self.path.name} is made again: {damage}")
            discard(self.path)
        folder = self.path if in_place else self.root / f".part-{self.path.name}"
        discard(folder)
        make(folder)
        commit(folder, self.hashed)
        if not in_place:
            folder.rename(self.path)


def commit(folder: Path, hashed: bool) -> None:
    """Write the manifest of everything in `folder` except bytecode, which Python may rewrite."""
    listed: dict[str, tuple[int, str | None]] = {}
    for path in _files(folder):
        listed[str(path.relative_to(folder))] = (path.stat().st_size, sha256(path) if hashed else None)
    part = folder / f"{MANIFEST}.part"
    with part.open("w") as file:
        json.dump(listed, file)
        file.flush()
        os.fsync(file.fileno())
    part.rename(folder / MANIFEST)


def _files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (Path(parent, name) for name in sorted(names) if not name.startswith(MANIFEST))


def discard(folder: Path) -> None:
    """Remove a folder, renamed first: an interrupt leaves no incomplete one under its name."""
    if not folder.exists():
        return
    gone = folder.with_name(f".gone-{folder.name}-{os.getpid()}")
    folder.rename(gone)
    shutil.rmtree(gone)


def cleanup(root: Path) -> None:
    """Remove the leftovers of interrupted runs; the caller holds the lock."""
    for pattern in (".gone-*", ".part-*"):
        for leftover in root.glob(pattern):
            shutil.rmtree(leftover)


def locked(root: Path, say: Callable[[str], None]) -> AbstractContextManager[None]:
    """Hold the cache's lock; `say` if it has to wait. Raises SetupError if the folder is not writable."""
    lock = root / "lock"
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock.open("w").close()
    except OSError as error:
        raise SetupError(
            f"cache folder {root}: {error.strerror}. Fix: make it writable, or set SLUICE_CACHE to another "
            "folder"
        ) from error
    return base.locked(lock, partial(say, f"waiting for another set-up that holds {lock}"))


HERE = REPO / "local"
REQUIREMENTS = REPO / "requirements.txt"
JAR_HASHES = HERE / "jars.sha256"
REGISTRY_JAVA = HERE / "registry.txt"
SPARK_CLASSES = HERE / "setup" / "spark_classes.py"
ARCHIVE = "classes.jsa"
MINIO_VERSION = "v0.0.0-20260212201848-7aac2a2c5b7c"


def environment() -> Artifact:
    """The Python environment of all services and jobs."""
    return Artifact(cache(), "env", fingerprint(REQUIREMENTS.read_bytes(), *python_inputs()), hashed=False)


def jars(jar_set: str) -> Artifact:
    """The jars of `spark` or `kafka`; of `rest-catalog` for stacks that choose it, of `connect` for `make
    bench`, of `strimzi` for `make k8s-check`, of `producers` for tests."""
    return Artifact(cache(), f"jars-{jar_set}", fingerprint(*_resolved(jar_set)), hashed=True)


def _resolved(jar_set: str) -> tuple[bytes, str]:
    """The inputs of what Ivy resolves: its file, and the pinned hashes."""
    pinned = "\n".join(f"{digest} {name}" for name, digest in sorted(pinned_jars(jar_set).items()))
    return (HERE / "ivy" / f"{jar_set}.xml").read_bytes(), pinned


def registry() -> Artifact:
    """The schema registry and the Java that it needs, in the folders `app` and `java`."""
    key = fingerprint(*_resolved("registry"), REGISTRY_JAVA.read_bytes(), os.uname().machine)
    return Artifact(cache(), "registry", key, hashed=True)


def spark_classes(java_home: Path) -> Artifact:
    """The archive of Spark's classes, which a JVM takes for these jars, and at this path, only."""
    key = fingerprint(
        environment().key,
        jars("spark").key,
        str(cache()),
        str(java_home),
        (java_home / "release").read_bytes(),
        SPARK_CLASSES.read_bytes(),
    )
    return Artifact(cache(), "spark-classes", key, hashed=False)


def spark_class_path(python_env: Path, spark_jars: Path) -> str:
    """Jars only, and all of them: a JVM takes an archive if its class path begins with the archive's."""
    return f"{spark_jars}/*:{pyspark(python_env)}/jars/*"


def pyspark(python_env: Path) -> Path:
    """PySpark's folder in a Python environment."""
    (found,) = python_env.glob("lib/python3.*/site-packages/pyspark")
    return found


def minio() -> Artifact:
    """The MinIO server."""
    return Artifact(cache(), "minio", fingerprint(MINIO_VERSION, os.uname().machine), hashed=True)


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
