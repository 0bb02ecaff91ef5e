"""A node leaves nothing on the machine, also if its process is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from local.base import REPO
from local.stack.stack import wait_until
from tests.k8s.cluster import cgroups
from tests.k8s.cluster.running import remove_leftovers

# A node of another process, beside the one of the tests, until its input ends.
PROGRAM = """
import sys
from tests.k8s.cluster.running import running_node
with running_node() as node:
    print(node.folder, node.addresses.link, node.namespaces.first.pid, flush=True)
    sys.stdin.read()
"""


@dataclass(frozen=True)
class Traces:
    """What the machine shows of a node. `network`: its network namespace's number."""

    folder: Path
    link: str
    network: int

    def processes(self) -> list[psutil.Process]:
        """Those of its network, and those in its cgroups, which are its pods'."""
        return [found for found in psutil.process_iter() if self._is_of_node(found.pid)]

    def has_link(self) -> bool:
        return self.link in psutil.net_if_addrs()

    def cgroups(self) -> list[Path]:
        return cgroups.existing(self.link)

    def mounts(self) -> list[str]:
        """As the machine sees them: there should never be any."""
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
        return [line for line in lines if str(self.folder) in line]

    def routes(self) -> list[str]:
        shown = subprocess.run(["ip", "route"], capture_output=True, text=True, check=True).stdout
        return [line for line in shown.splitlines() if self.link in line]

    def assert_nothing_is_left(self) -> None:
        assert self.processes() == []
        assert not self.has_link()
        assert self.routes() == []
        assert self.cgroups() == []
        assert self.mounts() == []
        assert not self.folder.exists()

    def _is_of_node(self, pid: int) -> bool:
        try:
            groups = Path(f"/proc/{pid}/cgroup").read_text()
            return f":/{self.link}/" in groups or network(pid) == self.network
        except (FileNotFoundError, ProcessLookupError):
            return False  # it has ended
        except PermissionError:
            return False  # a machine's first process, with more rights than this one


def network(pid: int) -> int:
    return Path(f"/proc/{pid}/ns/net").stat().st_ino


@contextmanager
def other_node() -> Iterator[tuple[subprocess.Popen[str], Traces]]:
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(
        command, cwd=REPO, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            folder, link, first = process.stdout.readline().split()
            traces = Traces(Path(folder), link, network(int(first)))
            # Otherwise the tests below would find nothing either way.
            names = {found.name() for found in traces.processes()}
            assert {"etcd", "kube-apiserver", "kubelet", "containerd", "coredns", "pause"} <= names
            assert traces.has_link()
            assert traces.cgroups()
            assert traces.routes()
            assert traces.mounts() == []
            yield process, traces
        finally:
            process.kill()


def test_a_node_that_is_ended_leaves_nothing() -> None:
    with other_node() as (process, traces):
        process.communicate(timeout=60)
        assert process.returncode == 0
        traces.assert_nothing_is_left()


def test_what_a_killed_node_leaves_is_removed_by_the_next_start() -> None:
    with other_node() as (process, traces):
        process.send_signal(signal.SIGKILL)
        process.wait()
        wait_until("the end of its processes", lambda: not traces.processes(), 20)
        assert traces.mounts() == []
        # Otherwise the next line would prove nothing.
        assert traces.folder.exists()
        remove_leftovers()
        traces.assert_nothing_is_left()


def test_a_node_that_runs_is_not_taken_for_a_leftover() -> None:
    with other_node() as (_, traces):
        remove_leftovers()
        assert traces.has_link()
        assert traces.cgroups()
        assert traces.folder.exists()
