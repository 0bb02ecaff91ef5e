"""Where the schema registry is, and who may do what in it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from local.runtime.ports import Network
from local.runtime.secrets import REGISTRY_ROLES
from sluice.core.json_record import Document

# The user that may change its rules.
ADMIN = "sluice-admin"
# Where its API is Confluent's.
API = "/apis/ccompat/v7"


def registry_section(role: str, network: Network, secrets: Mapping[str, str]) -> Document:
    """[registry] of a role's platform file."""
    # Another set of data has other schemas, perhaps under the same ids and at the same address.
    data = hashlib.sha256(secrets["install"].encode()).hexdigest()[:12]
    return {
        "url": f"http://{network.address('registry')}{API}",
        "name": f"embedded-{data}",
        "username": _user(role),
        "password": secrets[f"registry_{role}"],
        **network.plain_text("registry"),
    }


def registry_logins(secrets: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Its users: name -> password, and their right by Apicurio's name."""
    logins = {_user(role): (secrets[f"registry_{role}"], right) for role, right in REGISTRY_ROLES.items()}
    return {**logins, ADMIN: (secrets["registry_admin"], "sr-admin")}


def _user(role: str) -> str:
    return f"sluice-{role}"
