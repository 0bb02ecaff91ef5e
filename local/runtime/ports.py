"""Where the services are: by default on loopback, on ports chosen, kept and checked before a start."""

from __future__ import annotations

import random
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice

import psutil

from local.base import UsageError
from sluice.clients.polling import wait_for
from sluice.config.reading.urls import is_loopback

HOST = "127.0.0.1"
DEFAULTS = {
    "postgres": 15432,
    "kafka": 19092,
    "kafka_controller": 19093,
    "minio": 19000,
    "supervisor": 19001,
    "airflow": 18080,
    "replay": 18081,
    "checks": 18082,
    "observer": 18083,
    "registry": 18084,
    "registry_health": 18085,
    "rest_catalog": 18086,
}
# The range of free ports: below the one from which the kernel takes ports for outgoing connections.
FREE = range(20000, 32000)
# Narrows it, as FIRST-LAST: concurrent searches for free ports need a range each.
RANGE_VARIABLE = "SLUICE_FREE_PORTS"


@dataclass(frozen=True)
class Network:
    """Where the services listen, and where the others reach them.

    `ports`: by service, the names of DEFAULTS. `bind`: the address they listen on. `hosts`: service → host
    name, where that is not HOST. `brokers`: the host names of Kafka's nodes, for more than one; `node`: the
    one that is configured, from 1.
    """

    ports: Mapping[str, int]
    bind: str = HOST
    hosts: Mapping[str, str] = field(default_factory=dict)
    brokers: tuple[str, ...] = ()
    node: int = 1

    def host(self, service: str) -> str:
        return self.hosts.get(service, HOST)

    def address(self, service: str) -> str:
        """`host:port`, for clients."""
        return f"{self.host(service)}:{self.ports[service]}"

    def listener(self, service: str) -> str:
        """`address:port`, for the server."""
        return f"{self.bind}:{self.ports[service]}"

    def plain_text(self, service: str) -> dict[str, bool]:
        """What a section of a platform file says of a service of a stack's own network, which has no
        certificate."""
        hosts = self.nodes if service == "kafka" else (self.host(service),)
        return {} if all(map(is_loopback, hosts)) else {"plain_text": True}

    @property
    def nodes(self) -> tuple[str, ...]:
        """The host names of Kafka's nodes, in the order of their ids from 1."""
        return self.brokers or (self.host("kafka"),)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{host}:{self.ports['kafka']}" for host in self.nodes)


def variable(service: str) -> str:
    """The environment variable that sets a service's port."""
    return f"SLUICE_{service.upper()}_PORT"


def choose(kept: Mapping[str, int], environ: Mapping[str, str], free: bool = False) -> dict[str, int]:
    """Ports by service: the environment's, else those kept since the first start, else free ones or defaults.

    Raises UsageError for an invalid value, and for two services on one port.
    """
    ports: dict[str, int] = {}
    for service, default in DEFAULTS.items():
        requested = environ.get(variable(service))
        if requested:
            ports[service] = _port(variable(service), requested)
        elif service in kept:
            ports[service] = kept[service]
        elif not free:
            ports[service] = default
    missing = [service for service in DEFAULTS if service not in ports]
    if missing:
        found = free_ports(len(missing), set(ports.values()), free_range(environ))
        ports |= dict(zip(missing, found, strict=True))
    for service, port in ports.items():
        others = [other for other in ports if other != service and ports[other] == port]
        if others:
            raise UsageError(
                f"port {port} is set for {service} and {others[0]}. Fix: set {variable(service)} to another"
            )
    return ports


def moved(kept: Mapping[str, int], ports: Mapping[str, int]) -> bool:
    """Whether a service's kept port would change."""
    return any(ports[service] != port for service, port in kept.items() if service in ports)


def _port(name: str, text: str) -> int:
    if not text.isdecimal() or not 1024 <= int(text) <= 65535:
        raise UsageError(f"{name} is {text!r}. Fix: give a port between 1024 and 65535")
    return int(text)


def free_range(environ: Mapping[str, str]) -> range:
    """The range of free ports. Raises UsageError for an invalid value of RANGE_VARIABLE."""
    text = environ.get(RANGE_VARIABLE)
    if not text:
        return FREE
    match = re.fullmatch(r"(\d+)-(\d+)", text)
    found = range(int(match[1]), int(match[2]) + 1) if match else range(0)
    if len(found) < len(DEFAULTS) or found[0] < 1024 or found[-1] > 65535:
        raise UsageError(
            f"{RANGE_VARIABLE} is {text!r}. Fix: give at least {len(DEFAULTS)} ports, as 20000-25999"
        )
    return found


def free_ports(count: int, taken: set[int], searched: range) -> list[int]:
    """So many ports of `searched` that no server has now. Raises UsageError."""
    candidates = random.sample(searched, len(searched))
    found = list(islice((port for port in candidates if port not in taken and is_free(port)), count))
    if len(found) < count:
        raise UsageError(f"no free port from {searched[0]} to {searched[-1]}. Fix: set {RANGE_VARIABLE}")
    return found


def is_free(port: int) -> bool:
    """Whether a server could bind the port on loopback now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do: otherwise a connection that ended a minute ago would occupy the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def check(ports: Mapping[str, int], services: Iterable[str], timeout_seconds: float = 0.0) -> None:
    """Raises UsageError naming every port in use, its process if known, and the variable to set.

    `timeout_seconds`: how long to wait for free ports. A killed process holds its ports until the kernel has
    removed it, which for a JVM takes some seconds on a busy machine.
    """
    services = list(services)
    wait_for(lambda: all(is_free(ports[service]) for service in services), timeout_seconds)
    taken = [
        f"port {ports[service]} for {service} is taken by {_user_of(ports[service])}. "
        f"Fix: stop that, or set {variable(service)} to a free port"
        for service in services
        if not is_free(ports[service])
    ]
    if taken:
        raise UsageError("; ".join(taken))


def _user_of(port: int) -> str:
    try:
        for connection in psutil.net_connections("tcp"):
            # `laddr` of a socket without an address is an empty tuple.
            if getattr(connection.laddr, "port", None) != port:
                continue
            if connection.status == psutil.CONN_LISTEN and connection.pid:
                return f"process {connection.pid} ({psutil.Process(connection.pid).name()})"
    except psutil.Error as error:
        return f"an unknown process ({error})"
    return "a process of another user"
