"""Strimzi's Kafka instead of the plain pod: its address, logins, and the authority of its certificates."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from local.base import UnhealthyService
from local.runtime.roles import Document
from sluice.clients.kubernetes.api import KubernetesApi, NotFound
from sluice.clients.polling import wait_for

# The name of the Kafka resource. Without it Kafka is the plain pod.
VARIABLE = "SLUICE_STRIMZI_CLUSTER"
# The port of the listener in k8s/components/strimzi/kafka.yaml.
PORT = 9093
# In the folder of the platform files.
AUTHORITY = "kafka-ca.crt"
# Strimzi makes its authority before the first pod of Kafka.
SECONDS = 300.0


def authority_secret(cluster: str) -> str:
    return f"{cluster}-cluster-ca-cert"


def connect(documents: Mapping[str, Document], folder: Path, namespace: str, cluster: str) -> None:
    """Let the platform files of all roles name it. ``folder``: theirs, in each pod."""
    for document in documents.values():
        # That of a plain pod.
        document["kafka"].pop("plain_text", None)
        document["kafka"] |= {
            "bootstrap_servers": f"{cluster}-kafka-bootstrap:{PORT}",
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-512",
            "ssl_ca_location": str(folder / AUTHORITY),
        }
    documents["airflow"]["strimzi"] = {"namespace": namespace, "cluster": cluster}


def authority(api: KubernetesApi, core: Any, namespace: str, cluster: str, seconds: float = SECONDS) -> str:
    """The certificates, as PEM. Raises UnhealthyService if Strimzi does not make them in ``seconds``."""
    name = authority_secret(cluster)
    where = f"Secret {namespace}/{name}"

    def read() -> str:
        try:
            secret = api.ask(where, lambda: core.read_namespaced_secret(name, namespace))
        except NotFound:
            return ""
        return base64.b64decode(secret.data["ca.crt"]).decode()

    found = wait_for(read, seconds, 1.0)
    if not found:
        raise UnhealthyService(
            f"{where} is missing after {seconds:.0f} s: Strimzi makes it for Kafka {cluster}. "
            f"Fix: install its operator; kubectl describe kafka {cluster} --namespace {namespace}"
        )
    return found
