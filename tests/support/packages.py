"""Programs of Debian's that tests are made with, beside what the project installs itself."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

# One process after the other: apt refuses two.
LOCK = Path(tempfile.gettempdir()) / "sluice-tests-apt.lock"
# Debian puts servers where a user's PATH does not lead.
SERVERS = "/usr/sbin"


def program(name: str, package: str) -> str:
    """The path of program ``name``; ``package`` is installed where it is missing and this is root.

    Raises RuntimeError with the line to run where it cannot be installed: what was not tried must not count
    as tested.
    """
    found = _found(name)
    if found:
        return found
    install = ("apt-get", "install", "-y", "--no-install-recommends", package)
    line = " ".join(install)
    if os.geteuid() != 0:
        raise RuntimeError(f"{name} is missing, and tests need it. Run: sudo {line}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with LOCK.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Another may have installed it while this one waited.
        for command in () if _found(name) else (("apt-get", "update"), install):
            done = subprocess.run(command, capture_output=True, text=True, env=environment)
            if done.returncode != 0:
                raise RuntimeError(
                    f"`{' '.join(command)}` ended with {done.returncode}: {done.stderr[-500:]}"
                )
    found = _found(name)
    if not found:
        raise RuntimeError(f"{name} is still missing after: {line}")
    return found


def _found(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:{SERVERS}")
