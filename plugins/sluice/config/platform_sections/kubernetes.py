"""``[kubernetes]`` and ``[strimzi]`` of a platform file: where pods run, and whose resources topics are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from sluice.config.reading.toml import ConfigError

MODES = ("native", "operator")


@dataclass(frozen=True)
class Kubernetes:
    """Where components and Spark jobs run as pods; ``mode``: one of MODES."""

    namespace: Annotated[
        str,
        "in which components and Spark jobs are [pods](kubernetes.md), instead of processes of supervisord",
    ]
    image: Annotated[str, "of all of them"]
    mode: Annotated[str, "`native`, or `operator` for clusters with the Spark operator"] = "native"
    overrides: Annotated[
        str,
        "name of a ConfigMap with an `overrides.toml` for the streams; empty: none",
    ] = ""
    kubeconfig: Annotated[str, "path of a file; empty: the service account of the pod"] = ""


@dataclass(frozen=True)
class Strimzi:
    namespace: Annotated[
        str,
        "of the Kafka resource whose topics are [KafkaTopic resources](kubernetes.md#topics-through-strimzi)",
    ]
    cluster: Annotated[str, "name of the Kafka resource"]
    kubeconfig: Annotated[str, "path of a file; empty: the service account of the pod"] = ""


def check(kubernetes: Kubernetes, where: str) -> None:
    """Raises ConfigError naming ``where`` and the value."""
    if kubernetes.mode not in MODES:
        raise ConfigError(f"{where}: kubernetes mode is {kubernetes.mode!r}. Fix: use {' or '.join(MODES)}")
