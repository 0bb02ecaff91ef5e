"""``[kubernetes]`` and ``[strimzi]`` of a platform file: where pods run, and whose resources topics are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from sluice.config.reading.toml import ConfigError
from sluice.config.reading.urls import VISIBLE
from sluice.config.reading.values import shown

MODES = ("native", "operator")
# The roles of streams' pods.
POD_ROLES = ("producer", "consumer")
# Names of Kubernetes' resources, of a file in a volume, and keys and values of labels.
_RESOURCE = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_LABEL = re.compile(r"([a-z0-9][a-z0-9.-]{0,251}/)?[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?", re.ASCII)
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?)?", re.ASCII)
# Prefixes of labels by which pods are found.
_OURS = ("app.kubernetes.io/", "sluice.io/", "spark-", "sparkoperator.k8s.io/")


@dataclass(frozen=True)
class Identity:
    """What a role's pods have beside its platform file: components, bounded jobs, and their executors."""

    service_account: Annotated[str, "of the pods; empty: `sluice-spark`"] = ""
    secrets: Annotated[
        str,
        "name of a Secret, whose keys are files in `/var/lib/sluice/secrets`, for [references](#secrets); "
        "empty: none",
    ] = ""
    tokens: Annotated[
        dict[str, str],
        "name = audience of a token of the service account, which Kubernetes renews in "
        "`/var/lib/sluice/tokens/<name>`",
    ] = field(default_factory=dict)
    labels: Annotated[
        dict[str, str],
        'further labels of the pods, as Azure\'s `"azure.workload.identity/use" = "true"`',
    ] = field(default_factory=dict)


NO_IDENTITY = Identity()


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
    identities: dict[str, Identity] = field(default_factory=dict)
    """By role of POD_ROLES, as `consumer`; a role that is missing has NO_IDENTITY."""

    def identity(self, role: str) -> Identity:
        """That of a role's pods."""
        return self.identities.get(role, NO_IDENTITY)


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
    for role, identity in kubernetes.identities.items():
        if role not in POD_ROLES:
            raise ConfigError(
                f"{where}: kubernetes identities has {shown(role)}, whose pods are made by no task. Fix: use "
                f"{' or '.join(POD_ROLES)}"
            )
        _check_identity(identity, f"{where}: kubernetes identities {role}")


def _check_identity(identity: Identity, where: str) -> None:
    for key in ("service_account", "secrets"):
        if (name := getattr(identity, key)) and not _RESOURCE.fullmatch(name):
            raise ConfigError(
                f"{where} {key} is {shown(name)}, no name of a resource. Fix: use lower-case letters, "
                "digits, . and -"
            )
    for name, audience in identity.tokens.items():
        if not _FILE.fullmatch(name) or not VISIBLE.fullmatch(audience):
            raise ConfigError(
                f"{where} tokens has {shown(name)} = {shown(audience)}. Fix: write a name of letters, "
                "digits, _ and -, and an audience without blanks"
            )
    _check_labels(identity.labels, where)


def _check_labels(labels: Mapping[str, str], where: str) -> None:
    for key, value in labels.items():
        if not _LABEL.fullmatch(key) or not _LABEL_VALUE.fullmatch(value):
            raise ConfigError(
                f"{where} labels has {shown(key)} = {shown(value)}. Fix: write a label's key and value"
            )
        if key.startswith(_OURS):
            raise ConfigError(
                f"{where} labels has {shown(key)}, by which pods are found. Fix: use another key"
            )
