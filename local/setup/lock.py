"""`make lock`: recompiles the pinned requirements and the jars' hashes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from local import shell
from local.base import REPO
from local.progress import ProgressDisplay
from local.setup import build
from local.setup.cache import HERE, JAR_HASHES, discard, sha256

# No address of an index in the output: the machine sets which one is used.
_OPTIONS = (
    *("--universal", "--python-version", "3.11", "--generate-hashes", "--no-annotate", "--no-header"),
    *("--no-emit-index-url", "--no-emit-find-links", "--quiet"),
)


def recompile(work: Path, board: ProgressDisplay) -> None:
    """requirements.txt, and those in local/, from their .in files."""
    uv = Path(sys.executable).with_name("uv")
    env = {**os.environ, "UV_CACHE_DIR": str(work / "uv")}
    for source in (REPO / "requirements.in", *sorted(HERE.glob("*.in"))):
        target = source.with_suffix(".txt")
        with board.step(f"compiling {target.relative_to(REPO)}") as step:
            options = ("--override", HERE / "overrides.txt", *_OPTIONS, "-o", target)
            shell.run([uv, "pip", "compile", source, *options], step, work / "lock.log", env, REPO)
            target.write_text(without_entry(target.read_text(), "pyspark-client"))


def without_entry(text: str, package: str) -> str:
    """The compiled requirements without a package: the override excludes it, but its hashes stay."""
    kept: list[str] = []
    dropping = False
    for line in text.splitlines():
        if not line.startswith(" "):
            dropping = line.split("==")[0] == package
        if not dropping:
            kept.append(line)
    return "\n".join(kept) + "\n"


def rehash_jars(java_home: Path, work: Path, board: ProgressDisplay) -> None:
    """Resolve all jar sets again and write their SHA-256."""
    lines = ["# SHA-256 of every jar, as resolved by `make lock`; the set-up takes no other."]
    for jar_set in ("spark", "kafka", "connect", "strimzi", "registry", "producers", "rest-catalog"):
        with board.step(f"resolving the {jar_set} jars") as step:
            folder = work / f"lock-{jar_set}"
            discard(folder)
            build.resolve(folder, jar_set, java_home, work, step)
            lines += [f"{sha256(path)}  {jar_set}/{path.name}" for path in sorted(folder.iterdir())]
    JAR_HASHES.write_text("\n".join(lines) + "\n")
