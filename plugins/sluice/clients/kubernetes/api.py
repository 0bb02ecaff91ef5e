"""Requests to a Kubernetes API server, with deadlines, and its errors as client errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from urllib.parse import urlsplit

from sluice.clients.tls import words
from sluice.clients.tls.certificates import CertificateUnusable, ClientCertificate, load, trusting
from sluice.clients.tls.handshake import refusal
from sluice.config.reading.toml import ConfigError
from sluice.config.reading.urls import is_loopback
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused, Unreachable

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

T = TypeVar("T")
# To connect, and for an answer.
REQUEST_SECONDS = (5.0, 15.0)
# The manager, in metadata.managedFields, of the fields that Sluice sets.
FIELD_MANAGER = "sluice"
APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"

# Part of what admission says -> what a person does about it.
_ADMISSION = {
    "exceeded quota": "raise the namespace's ResourceQuota, or lower [cluster] in stream.toml",
    "violates PodSecurity": "none here: report it, with the profile of the namespace",
}


class NotFound(Refused):
    """404: the object is not there, or its kind or namespace is not."""


class Conflict(Refused):
    """409: it exists already, changed meanwhile, or another manager owns a field."""


def _certificate_fix(text: str) -> str:
    """What a person does about a certificate of either side, by OpenSSL's words; empty for another error."""
    if words.is_unverified(text):
        return "correct certificate-authority of the kubeconfig, or the host of its server"
    is_refused = words.is_certificate_refused(text)
    return "renew client-certificate and client-key of the kubeconfig" if is_refused else ""


class KubernetesApi:
    """``fixes``: HTTP status -> what a person does about it. ``section``: of the platform file."""

    def __init__(self, kubeconfig: str, section: str, fixes: Mapping[int, str]) -> None:
        """Raises ConfigError for a kubeconfig that cannot be read."""
        self.client = connect(kubeconfig, section)
        self._fixes = fixes

    def ask(self, where: str, request: Callable[[], T]) -> T:
        """``where``: what is asked about. Raises Unreachable, NotFound, Conflict, Refused."""
        from kubernetes.client import ApiException
        from urllib3.exceptions import HTTPError

        try:
            return request()
        except ApiException as error:
            self._raise(where, error)
        except HTTPError as error:
            said = self._said(error)
            if fix := _certificate_fix(said):
                host = self.client.configuration.host
                raise Refused(
                    f"{where}: Kubernetes at {host} and this client do not trust each other: {said}. Fix: "
                    f"{fix}",
                    ErrorCode.KUBERNETES_REFUSED,
                ) from error
            raise Unreachable(
                f"{where}: Kubernetes at {self.client.configuration.host} does not answer: {error}",
                ErrorCode.KUBERNETES_UNREACHABLE,
            ) from error

    def _said(self, error: Exception) -> str:
        """The error of a connection; the server's words, if it ended without them."""
        text, found = str(error), self.client.configuration
        if not words.is_ended(text) or not found.verify_ssl:
            return text
        try:
            context = trusting(found.ssl_ca_cert or "")
            if found.cert_file:
                load(context, ClientCertificate(found.cert_file, found.key_file or ""))
        except CertificateUnusable as unusable:
            return f"{text}; {unusable}"
        return refusal(found.host, context) or text

    def apply(self, where: str, patch: Callable[..., T], **arguments: Any) -> T:
        """Server-side apply by a ``patch_…`` of the client. Not forced: another manager's field with another
        value is an error. None for a new object: the client decodes no answer of status 201."""
        options = {
            "field_manager": FIELD_MANAGER,
            "field_validation": "Strict",
            "_content_type": APPLY,
            "_request_timeout": REQUEST_SECONDS,
        }
        return self.ask(where, lambda: patch(**arguments, **options))

    def json(self, answer: Any) -> Any:
        """An answer of the typed API as the API's JSON."""
        return self.client.sanitize_for_serialization(answer)

    def _raise(self, where: str, error: Any) -> NoReturn:
        """An answer of the API server as a client error."""
        try:
            said = str(json.loads(error.body)["message"])
        except (TypeError, ValueError, KeyError):
            said = str(error.reason)
        message = f"{where}: Kubernetes says {error.status}: {said}"
        # 429 and 5xx pass.
        if error.status not in self._fixes:
            raise Unreachable(message, ErrorCode.KUBERNETES_UNREACHABLE) from error
        kinds: dict[int, type[Refused]] = {404: NotFound, 409: Conflict}
        kind = kinds.get(error.status, Refused)
        raise kind(
            f"{message}. Fix: {self._fix(error.status, said)}", ErrorCode.KUBERNETES_REFUSED
        ) from error

    def _fix(self, status: int, said: str) -> str:
        # 403 is not only for a missing right: admission refuses with it too.
        if status == 403:
            for part, fix in _ADMISSION.items():
                if part in said:
                    return fix
        return self._fixes[status]


def connect(kubeconfig: str, section: str) -> ApiClient:
    """By a kubeconfig, or the service account of the pod, whose token is read again each minute. Raises
    ConfigError, also for an API server on another machine that would not be verified."""
    # Half a second to import, and only where a cluster is used.
    from kubernetes import client
    from kubernetes import config as configs

    found = client.Configuration()
    # urllib3's own retries would multiply the deadlines.
    found.retries = 0
    try:
        if kubeconfig:
            configs.load_kube_config(kubeconfig, client_configuration=found)
        else:
            configs.load_incluster_config(client_configuration=found)
    except (configs.ConfigException, OSError) as error:
        where = kubeconfig or "the service account of this pod"
        raise ConfigError(
            f"[{section}] of the platform file: {where}: {error}. Fix: set kubeconfig to a readable file, or "
            "run in a pod with a service account"
        ) from error
    _check_verified(found, f"[{section}] of the platform file: {kubeconfig}")
    return client.ApiClient(found)


def _check_verified(found: Any, where: str) -> None:
    """Before the login is sent."""
    parts = urlsplit(found.host)
    if is_loopback(parts.hostname or ""):
        # The client would go through one to this machine, with the login, in plain text.
        found.proxy = None
        return
    if parts.scheme != "https":
        raise ConfigError(
            f"{where}: server {found.host} is another machine, and the login would be sent to it in plain "
            "text. Fix: write https://"
        )
    if not found.verify_ssl:
        raise ConfigError(
            f"{where}: insecure-skip-tls-verify is there: {found.host}, which is another machine, would not "
            "be verified, and get the login. Fix: remove it, and give certificate-authority"
        )
