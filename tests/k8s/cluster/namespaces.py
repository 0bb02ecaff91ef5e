"""A node's own network, mounts and processes, which end as a whole, and its link to this machine."""

from __future__ import annotations

import ipaddress
import json
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from local.base import SetupError
from local.runtime.context import with_parent
from local.stack.stack import wait_until

# Ways into the namespaces, as nsenter calls them.
NETWORK = ("--net",)
ALL = ("--net", "--mount", "--pid")
# The second number of the blocks 10.x.0.0/16 from which a node takes its addresses.
BLOCKS = range(244, 252)
START_SECONDS = END_SECONDS = 20.0


def output(*command: str | Path) -> str:
    """Run a program; give its output. Raises SetupError with what it says."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        text = shlex.join(str(part) for part in command)
        raise SetupError(f"{text} ended with {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


@dataclass(frozen=True)
class Addresses:
    """10.`block`.0.0/16, and the name of the link on the machine, which is also that of the node's cgroup."""

    block: int

    @property
    def link(self) -> str:
        return f"sluice{self.block}"

    @property
    def machine(self) -> str:
        return f"10.{self.block}.255.1"

    @property
    def node(self) -> str:
        return f"10.{self.block}.255.2"

    @property
    def pods(self) -> str:
        return f"10.{self.block}.0.0/24"

    @property
    def services(self) -> str:
        return f"10.{self.block}.1.0/24"

    @property
    def api_service(self) -> str:
        """The first of the services, which the API server gives itself."""
        return f"10.{self.block}.1.1"

    @property
    def dns(self) -> str:
        return f"10.{self.block}.1.10"

    @classmethod
    def free(cls) -> Addresses:
        """Those of the first block that the machine has no route into. Raises SetupError."""
        taken = list(_routes())
        for block in BLOCKS:
            whole = ipaddress.ip_network(f"10.{block}.0.0/16")
            if not any(whole.overlaps(network) for network in taken):
                return cls(block)
        first, last = (f"10.{block}.0.0/16" for block in (BLOCKS[0], BLOCKS[-1]))
        raise SetupError(
            f"this machine has routes into each of {first} to {last}, from which a node takes its addresses. "
            "Fix: end other nodes (python -m tests.k8s.cluster down), or remove a route"
        )


def _routes() -> Iterator[ipaddress.IPv4Network]:
    for route in json.loads(output("ip", "-json", "-4", "route", "show", "table", "all")):
        if route["dst"] != "default":
            yield ipaddress.IPv4Network(route["dst"])


class Namespaces:
    """Network, mount and process namespaces. The kernel ends them if their first process or this one dies."""

    def __init__(self, first: Path, log: Path) -> None:
        """`first`: a program that waits, and reaps the processes whose parents have ended."""
        command = with_parent(
            *("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
            *("--propagation", "private", first),
            signal="KILL",
        )
        self._log = log
        with log.open("ab") as file:
            self._unshare = subprocess.Popen(command, stdout=file, stderr=file)
        try:
            wait_until("the node's namespaces", lambda: self._has_started(first.name), START_SECONDS, 0.05)
        except BaseException:
            self._unshare.kill()
            self._unshare.wait()
            raise
        (self.first,) = psutil.Process(self._unshare.pid).children()

    def _has_started(self, name: str) -> bool:
        if self._unshare.poll() is not None:
            raise SetupError(f"the node's namespaces: {self._log.read_text().strip()}")
        return [child.name() for child in psutil.Process(self._unshare.pid).children()] == [name]

    def enter(self, kinds: tuple[str, ...]) -> list[str]:
        return enter(self.first.pid, kinds)

    def run(self, *command: str | Path) -> str:
        return output(*self.enter(ALL), *command)

    def connect(self, addresses: Addresses) -> None:
        """A link to this machine only: no other route, so that nothing else is reached."""
        link, inside = addresses.link, "eth0"
        output(
            "ip", "link", "add", link, "type", "veth", "peer", "name", inside, "netns", str(self.first.pid)
        )
        output("ip", "address", "add", f"{addresses.machine}/24", "dev", link)
        output("ip", "link", "set", link, "up")
        self.run("ip", "link", "set", "lo", "up")
        self.run("ip", "address", "add", f"{addresses.node}/24", "dev", inside)
        self.run("ip", "link", "set", inside, "up")
        # The control plane wants one; nothing answers there.
        self.run("ip", "route", "add", "default", "dev", inside)
        self.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        for network in (addresses.pods, addresses.services):
            output("ip", "route", "add", network, "via", addresses.node)

    def end(self) -> None:
        """The first process, and with it all others."""
        self.first.kill()
        self._unshare.wait(END_SECONDS)


def disconnect(link: str) -> None:
    """Remove the link and its routes, if it is there."""
    if link in psutil.net_if_addrs():
        output("ip", "link", "delete", link)


def enter(first: int, kinds: tuple[str, ...]) -> list[str]:
    """Runs the command that follows it in the namespaces of a process; without `--pid` in place of itself."""
    return ["nsenter", f"--target={first}", *kinds, "--"]
