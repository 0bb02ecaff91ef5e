"""What a role's pods have by ``[kubernetes.identities]``: an account, Secrets, and tokens that expire.

An account of a cloud (EKS, GKE, Azure) is found by the annotations of the service account; the cloud's own
webhook adds its token to the pods. A token for another system is a projected volume, which the kubelet writes
again before it expires: https://kubernetes.io/docs/concepts/storage/projected-volumes/#serviceaccounttoken
"""

from __future__ import annotations

from typing import Any

from sluice.config.platform_sections.kubernetes import Identity

# Where the images expect what only a pod can give them (docker/Dockerfile).
HOME = "/var/lib/sluice"
SECRETS, TOKENS = f"{HOME}/secrets", f"{HOME}/tokens"
# How long a token is valid; the kubelet writes a new one after 80 % of it. Kubernetes takes no less than 600.
TOKEN_SECONDS = 3600
# A volume and where a container mounts it.
Volume = tuple[dict[str, Any], dict[str, Any]]


def volumes(identity: Identity) -> list[Volume]:
    found: list[Volume] = []
    if identity.secrets:
        secret = {"secretName": identity.secrets, "defaultMode": 0o440}
        found.append(({"name": "secrets", "secret": secret}, {"mountPath": SECRETS, "readOnly": True}))
    if identity.tokens:
        sources = [
            {"serviceAccountToken": {"path": name, "audience": audience, "expirationSeconds": TOKEN_SECONDS}}
            for name, audience in identity.tokens.items()
        ]
        projected = {"sources": sources, "defaultMode": 0o440}
        found.append(({"name": "tokens", "projected": projected}, {"mountPath": TOKENS, "readOnly": True}))
    return found
