"""The cgroups of a node's containers: below one of its own in each hierarchy."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import psutil

from local.checks import CGROUPS, CONTROLLERS
from local.stack.stack import wait_until

END_SECONDS = 20.0


def create(name: str) -> None:
    for hierarchy in _hierarchies("cgroup"):
        (hierarchy / name).mkdir()
    if _is_version_2():
        (CGROUPS / name).mkdir()
        # A group has the controllers that its parent gives; the root gives them to all, as for any container.
        for group in (CGROUPS, CGROUPS / name):
            (group / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in CONTROLLERS))


def remove(name: str) -> None:
    """With all below, when their processes have ended."""
    wait_until(f"the end of cgroup {name}", lambda: _is_removed(name), END_SECONDS, 0.1)


def existing(name: str) -> list[Path]:
    found = (hierarchy / name for hierarchy in _hierarchies("cgroup", "cgroup2"))
    return [path for path in found if path.exists()]


def _is_removed(name: str) -> bool:
    for group in existing(name):
        below = [path for path in group.rglob("*") if path.is_dir()]
        for path in (*sorted(below, reverse=True), group):
            try:
                path.rmdir()
            except OSError as error:
                # A process is ending.
                if error.errno != errno.EBUSY:
                    raise
    return not existing(name)


def _is_version_2() -> bool:
    return (CGROUPS / "cgroup.controllers").exists()


def _hierarchies(*kinds: str) -> Iterator[Path]:
    """Those of version 1 are one per group of controllers."""
    for mount in psutil.disk_partitions(all=True):
        if mount.fstype in kinds:
            yield Path(mount.mountpoint)
