"""What the pods of a stream's Spark jobs get on a cluster: section ``[cluster]`` of stream.toml."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Annotated

from sluice.config.reading import limits
from sluice.config.reading.toml import ConfigError
from sluice.config.reading.values import shown

_MEMORY = re.compile(r"([1-9][0-9]{0,5})([mg])")
_CPU = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})?|[0-9]{1,6}m")
# What a container needs beside a JVM's heap: its own buffers and threads, and Python.
OVERHEAD, LEAST_OVERHEAD_MB, PYTHON_MB = 0.4, 384, 512

# With a smaller heap Spark does not start.
MIN_HEAP_MB = 512
# On Kubernetes: the variable with a template of executors that is not the image's, and where its driver
# writes it before Spark reads it.
TEMPLATE_VARIABLE, WRITTEN_TEMPLATE = "SLUICE_EXECUTOR_TEMPLATE", "/var/lib/sluice/tmp/executor.yaml"


@dataclass(frozen=True)
class Cluster:
    """Memory is a JVM's heap, in ``m`` or ``g`` (MiB, GiB); its container has ``container_mb`` of it.
    Requests are as Kubernetes writes them."""

    executors: Annotated[
        int,
        "[on Kubernetes](kubernetes.md): executors of each Spark job; with 0 its driver does the work",
    ] = 0
    driver_cores: Annotated[int, "processors that a driver may use"] = 2
    driver_memory: Annotated[
        str,
        "heap of a driver's JVM; its container gets 0.4 of it (at least 384 MiB) and 512 MiB more",
    ] = "1g"
    driver_requests: Annotated[str, "processors that a driver reserves"] = "500m"
    executor_cores: Annotated[int, "processors that an executor may use, and tasks that it runs at once"] = 1
    executor_memory: Annotated[
        str,
        "heap of an executor; its container gets as much more as a driver's",
    ] = "1g"
    executor_requests: Annotated[str, "processors that an executor reserves"] = "500m"


def memory_mb(heap: str) -> int:
    """MiB of ``512m`` or ``2g``. Raises ValueError for another text."""
    if not (found := _MEMORY.fullmatch(heap)):
        raise ValueError(f"memory {heap!r}: write it as 512m or 2g")
    return int(found[1]) * (1024 if found[2] == "g" else 1)


def container_mb(heap: str) -> int:
    """Memory limit, in MiB, of the container of a JVM with this heap and the Python beside it."""
    size = memory_mb(heap)
    return size + max(int(size * OVERHEAD), LEAST_OVERHEAD_MB) + PYTHON_MB


def check(cluster: Cluster, where: str) -> None:
    """Raises ConfigError naming ``where``, the key and the value."""
    limits.check(cluster, "cluster", where)
    for name, value in asdict(cluster).items():
        if name.endswith("_memory") and not _MEMORY.fullmatch(value):
            raise ConfigError(f"{where}: cluster {name} is {shown(value)}. Fix: write it as 512m or 2g")
        if name.endswith("_memory") and memory_mb(value) < MIN_HEAP_MB:
            raise ConfigError(f"{where}: cluster {name} is {value!r}. Fix: write at least {MIN_HEAP_MB}m")
        if name.endswith("_requests") and not _CPU.fullmatch(value):
            raise ConfigError(f"{where}: cluster {name} is {shown(value)}. Fix: write it as 500m or 1.5")
    for role in ("driver", "executor"):
        requests, cores = getattr(cluster, f"{role}_requests"), getattr(cluster, f"{role}_cores")
        if not 0 < _processors(requests) <= cores:
            raise ConfigError(
                f"{where}: cluster {role}_requests is {requests!r}; it must be more than 0, and at most "
                f"{role}_cores, {cores}. Fix: correct one of them"
            )


def _processors(text: str) -> float:
    return int(text[:-1]) / 1000 if text.endswith("m") else float(text)
