"""The Kubernetes API: the rights of the login, as the API server reviews them itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sluice.clients.kubernetes.api import REQUEST_SECONDS, KubernetesApi
from sluice.clients.tls.certificates import ClientCertificate
from sluice.connection_check.probing import tls as handshakes
from sluice.connection_check.probing.tls import Tls
from sluice.connection_check.rights.cluster import TOPICS, Verbs, granted, verbs
from sluice.connection_check.rows import Row, compared

if TYPE_CHECKING:
    from sluice.config.platform import Platform

_FIXES = {401: "renew the login of the kubeconfig", 403: "let it review its own rights"}
# What each login may ask of itself.
_OWN = ("authorization.k8s.io", "authentication.k8s.io")


def ask(platform: Platform, rows: list[Row]) -> None:
    """Fill the row of ``[kubernetes]``, or of ``[strimzi]``, by its end. Raises ClientError, ConfigError."""
    row = rows[0]
    section: Any = platform.kubernetes if row.end == "kubernetes" else platform.strimzi
    api = KubernetesApi(section.kubeconfig, row.end, _FIXES)
    found = api.client.configuration
    row.address = found.host
    row.login = "kubeconfig" if section.kubeconfig else "service account"
    own = ClientCertificate(found.cert_file, found.key_file or "") if found.cert_file else None
    tls = Tls(found.ssl_ca_cert or "", own)
    if not handshakes.look_at(row, found.host, tls):
        return
    there = _reviewed(row, api, section.namespace)
    strimzi = platform.strimzi
    is_shared = strimzi is not None and strimzi.namespace == section.namespace
    if row.end == "strimzi":
        needed, allowed = TOPICS, {**TOPICS, **granted(row.role)}
    else:
        mode = getattr(section, "mode", "")
        needed = verbs(row.role, with_operator=mode == "operator")
        allowed = {**granted(row.role), **(TOPICS if is_shared else {})}
    row.rights = compared(_questions(needed, allowed, there))


def _reviewed(row: Row, api: KubernetesApi, namespace: str) -> list[tuple[str, str, str]]:
    """API group, resource and verb of each right in the namespace; any of them may be `*`."""
    from kubernetes import client

    request = {"spec": {"namespace": namespace}}
    answer = api.ask(
        f"rights in namespace {namespace}",
        lambda: client.AuthorizationV1Api(api.client).create_self_subject_rules_review(
            request, _request_timeout=REQUEST_SECONDS
        ),
    )
    if answer.status.incomplete:
        # As with an authorizer that cannot list its rules (a webhook).
        row.remarks.append(f"not all rights are told: {answer.status.evaluation_error or 'no reason'}")
    return [
        (group, resource, verb)
        for rule in answer.status.resource_rules
        for group in rule.api_groups or ()
        for kind in rule.resources or ()
        for resource in _named(kind, rule.resource_names)
        for verb in rule.verbs
        if group not in _OWN
    ]


def _named(kind: str, names: Sequence[str] | None) -> list[str]:
    """The resource on each object that is named; on all of them without names."""
    return [f"{kind}:{name}" for name in names] if names else [kind]


def _questions(
    needed: Verbs, allowed: Verbs, there: list[tuple[str, str, str]]
) -> list[tuple[str, bool, bool]]:
    def is_there(group: str, resource: str, verb: str) -> bool:
        # A right on all objects of a kind is one on each.
        named = ("*", resource, resource.partition(":")[0])
        return any(
            found[0] in ("*", group) and found[1] in named and found[2] in ("*", verb) for found in there
        )

    asked = [
        (f"{verb} {resource}", True, is_there(group, resource, verb))
        for (group, resource), found in needed.items()
        for verb in found
    ]
    known = {(*place, verb) for place, found in allowed.items() for verb in found}
    return asked + [
        (f"{verb} {resource}", False, True)
        for group, resource, verb in dict.fromkeys(there)
        if (group, resource, verb) not in known
    ]
