"""The package as a user installs it: a wheel, built of this checkout without a download."""

from __future__ import annotations

import subprocess
from pathlib import Path

from local.base import REPO
from local.setup.bootstrap import tools


def uv(*arguments: str | Path) -> str:
    """The set-up's own; fails with what it says."""
    program = tools().path / "bin" / "uv"
    done = subprocess.run([program, *arguments], cwd=REPO, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def build(folder: Path) -> Path:
    """Return the wheel, in a new folder."""
    uv("build", "--wheel", "--offline", "--out-dir", folder, ".")
    [found] = folder.glob("*.whl")
    return found


def install(folder: Path, target: Path) -> Path:
    """Build the wheel in ``folder`` and install it into ``target``, a folder for PYTHONPATH; return that."""
    uv("pip", "install", "--quiet", "--offline", "--no-deps", "--target", target, build(folder))
    return target
