"""Who may do what in the schema registry, and what the registry itself may do on Kafka."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from local.runtime.kafka_rights import Rule
from local.runtime.ports import Network
from local.runtime.secrets import REGISTRY_ROLES
from sluice.config.postgresql import is_loopback
from sluice.core.json_record import Document

# Its own user of Kafka, and its topics there; the user that may change its rules.
USER, ADMIN = "sluice-registry", "sluice-admin"
TOPICS = tuple(f"{USER}-{name}" for name in ("journal", "snapshots", "events"))
# Of its groups, a new one at each start; not sluice-, which other users may read under.
GROUPS = "registry-"
# Where its API is Confluent's.
API = "/apis/ccompat/v7"


def registry_rules() -> list[Rule]:
    """Its rights on Kafka: its topics, which it makes itself, and the groups by which it reads them."""
    operations = ("CREATE", "DESCRIBE", "DESCRIBE_CONFIGS", "READ", "WRITE")
    rules = [Rule(USER, "topic", name, False, operation) for name in TOPICS for operation in operations]
    return [*rules, *(Rule(USER, "group", GROUPS, True, one) for one in ("READ", "DESCRIBE"))]


def registry_section(role: str, network: Network, secrets: Mapping[str, str]) -> Document:
    """[registry] of a role's platform file."""
    # Another set of data has other schemas, perhaps under the same ids and at the same address.
    data = hashlib.sha256(secrets["install"].encode()).hexdigest()[:12]
    return {
        "url": f"http://{network.address('registry')}{API}",
        "name": f"embedded-{data}",
        "username": _user(role),
        "password": secrets[f"registry_{role}"],
        **({} if is_loopback(network.host("registry")) else {"plain_text": True}),
    }


def registry_logins(secrets: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Its users: name -> password, and their right by Apicurio's name."""
    logins = {_user(role): (secrets[f"registry_{role}"], right) for role, right in REGISTRY_ROLES.items()}
    return {**logins, ADMIN: (secrets["registry_admin"], "sr-admin")}


def _user(role: str) -> str:
    return f"sluice-{role}"
