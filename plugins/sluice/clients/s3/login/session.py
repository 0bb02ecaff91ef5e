"""boto3's clients of a login."""

from __future__ import annotations

import threading
from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
import botocore.session
from botocore.config import Config
from botocore.credentials import CredentialProvider, CredentialResolver

from sluice.clients.proxies import for_botocore, of_aws
from sluice.clients.s3.login.credentials import Login, login
from sluice.clients.s3.login.sources import plain_session
from sluice.clients.s3.requests import S3_REQUESTS, Limits
from sluice.config.platform_sections.s3 import AWS_KMS, S3

if TYPE_CHECKING:
    from botocore.session import Session
    from mypy_boto3_s3 import S3Client

# Requests that write an object; parts of one have its encryption.
_WRITES = ("PutObject", "CreateMultipartUpload", "CopyObject")
# boto3's sessions are not made for threads.
_LOCK = threading.Lock()


class Declared(CredentialProvider):
    """In place of all that botocore would ask for credentials."""

    METHOD = CANONICAL_NAME = "sluice"

    def __init__(self, s3: S3) -> None:
        super().__init__()
        self._s3 = s3

    def load(self) -> Login:
        return login(self._s3)


def botocore_session(s3: S3 | None) -> Session:
    """A session of its own with the login, for a client of any service; without one for fixed keys."""
    session = botocore.session.get_session()
    session.register_component("data_loader", plain_session().get_component("data_loader"))
    if s3 is not None and not s3.has_fixed_login:
        session.register_component("credential_provider", CredentialResolver([Declared(s3)]))
    return session


def client(s3: S3, limits: Limits) -> S3Client:
    """A client of S3 with its own timeouts and retries. Nothing is sent yet."""
    keys: dict[str, Any] = {}
    if s3.has_fixed_login:
        keys = {
            "aws_access_key_id": s3.access_key,
            "aws_secret_access_key": s3.secret_key,
            "aws_session_token": s3.session_token or None,
        }
    with _LOCK:
        made = _session(None if s3.has_fixed_login else s3).client(
            "s3",
            endpoint_url=s3.endpoint or None,
            region_name=s3.region,
            verify=s3.ca_location or None,
            config=Config(
                s3={"addressing_style": "path" if s3.path_style else "auto"},
                retries={"mode": "standard", "total_max_attempts": limits.attempts},
                connect_timeout=limits.connect_seconds,
                read_timeout=limits.read_seconds,
                max_pool_connections=S3_REQUESTS,
                proxies=for_botocore(s3.endpoint or of_aws("s3", s3.region)),
            ),
            **keys,
        )
    for request in _WRITES if s3.sse else ():
        made.meta.events.register(f"provide-client-params.s3.{request}", _encrypted(s3))
    return made


def _encrypted(s3: S3) -> Any:
    wanted = {"ServerSideEncryption": s3.sse}
    if s3.sse == AWS_KMS and s3.sse_kms_key_id:
        wanted["SSEKMSKeyId"] = s3.sse_kms_key_id

    def add(params: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {**params, **wanted}

    return add


@cache
def _session(s3: S3 | None) -> boto3.Session:
    """One of each login that is renewed, and one for all with fixed keys."""
    return boto3.Session(botocore_session=botocore_session(s3))
