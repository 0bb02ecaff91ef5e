"""Runs a node in a folder of its own, and removes what killed ones have left."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from local.base import SetupError, fail, locked
from local.checks import node_missing
from tests.k8s import artifacts
from tests.k8s.cluster import cgroups, packages
from tests.k8s.cluster.namespaces import disconnect
from tests.k8s.cluster.node import Node

# Not the folder of TMPDIR: leftovers are found, also those of a node with another.
FOLDERS = Path("/tmp")  # noqa: S108
PREFIX = "sluice-k8s-"
# Locked while the node runs.
LOCK = "lock"
# Has the name of its link and cgroup.
LINK = "link"
IS_RUNNING = BlockingIOError("the node runs")


@contextmanager
def running_node() -> Iterator[Node]:
    """Raises SetupError if none can run here."""
    reason = node_missing()
    if reason is not None:
        raise SetupError(reason)
    artifacts.ensure(artifacts.kubernetes(), packages.wanted())
    remove_leftovers()
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=FOLDERS) as name:
        folder = Path(name)
        with locked(folder / LOCK, partial(fail, IS_RUNNING)):
            node = Node(folder)
            (folder / LINK).write_text(node.addresses.link)
            try:
                node.up()
                yield node
            finally:
                node.down()


def remove_leftovers() -> None:
    """Link, cgroups and folder of each node whose process was killed.

    The kernel keeps a link for up to a minute: until the last connection of the node's network has ended.
    """
    for lock in FOLDERS.glob(f"{PREFIX}*/{LOCK}"):
        try:
            with locked(lock, partial(fail, IS_RUNNING)):
                link = lock.with_name(LINK)
                if link.exists():
                    disconnect(link.read_text())
                    cgroups.remove(link.read_text())
                shutil.rmtree(lock.parent)
        except BlockingIOError:
            continue
