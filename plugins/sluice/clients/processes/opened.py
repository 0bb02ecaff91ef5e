"""The runtime that a platform file names."""

from __future__ import annotations

from sluice.clients.processes.base import TIMEOUT_SECONDS, Runtime
from sluice.config.platform import Platform
from sluice.config.reading.toml import ConfigError


def open_runtime(platform: Platform, timeout: float = TIMEOUT_SECONDS) -> Runtime:
    """``timeout``: of each request, in seconds. Raises ConfigError if the file names none, or two."""
    if platform.kubernetes and platform.supervisor:
        raise ConfigError(
            f"the platform file of role {platform.role!r} has [kubernetes] and [supervisor]. Fix: keep one"
        )
    # Their libraries take a second to import.
    if platform.kubernetes:
        from sluice.clients.processes.kubernetes import KubernetesRuntime
        from sluice.clients.processes.spark_operator import SparkOperatorRuntime

        if platform.kubernetes.mode == "operator":
            return SparkOperatorRuntime(platform.kubernetes, timeout)
        return KubernetesRuntime(platform.kubernetes, timeout)
    if platform.supervisor:
        from sluice.clients.processes.supervisord import SupervisorRuntime

        return SupervisorRuntime(platform.supervisor, timeout)
    raise ConfigError(
        f"the platform file of role {platform.role!r} has neither [supervisor] nor [kubernetes], so no "
        "stream can be observed or started. Fix: add [supervisor] with url, username and password, or "
        "[kubernetes] with namespace and image"
    )
