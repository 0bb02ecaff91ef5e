"""The passwords and keys of all services, on this machine, in containers and on a cluster: generated once."""

from __future__ import annotations

import base64
import os
import secrets
import string
from collections.abc import Mapping
from typing import Any

from sluice.config.platform import ROLES

# Those that use a schema registry, and their rights by Apicurio's names: to read schemas, to register them.
REGISTRY_ROLES = {
    **dict.fromkeys(("consumer", "reader"), "sr-readonly"),
    **dict.fromkeys(("airflow", "producer"), "sr-developer"),
}
_PASSWORDS = (
    *("postgres_admin", "postgres_airflow", "postgres_results", "supervisor", "minio_root"),
    *("kafka_broker", "kafka_admin", "airflow_operator", "airflow_api_secret", "airflow_jwt"),
    *("spark", "metrics", "observer", "postgres_registry", "registry_admin", "lake_catalog", "minio_catalog"),
    *(f"{system}_{role}" for system in ("lake", "kafka", "minio", "catalog") for role in ROLES),
    *(f"registry_{role}" for role in REGISTRY_ROLES),
)


def complete_secrets(stored: Mapping[str, Any]) -> dict[str, str]:
    """The stored secrets, and a generated one for each that is missing."""
    new = {name: _password() for name in (*_PASSWORDS, "install") if name not in stored}
    if "airflow_fernet" not in stored:
        new["airflow_fernet"] = base64.urlsafe_b64encode(os.urandom(32)).decode()
    if "kafka_cluster" not in stored:
        # A UUID in URL-safe base64; Kafka's tools would take a leading dash for an option.
        uuid = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
        new["kafka_cluster"] = f"S{uuid[1:-1]}A"
    return {str(name): str(value) for name, value in {**stored, **new}.items()}


def _password() -> str:
    # 190 bits in letters and digits: no configuration format needs quotes for it.
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(32))
