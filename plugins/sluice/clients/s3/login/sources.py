"""What gives credentials for a login to S3, by botocore: AWS's default chain, a profile, a role, a web
identity."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import botocore.session
from botocore.config import Config
from botocore.credentials import (
    AssumeRoleCredentialFetcher,
    AssumeRoleWithWebIdentityCredentialFetcher,
    Credentials,
)

from sluice.clients.proxies import for_botocore, of_aws
from sluice.config.platform_sections.s3 import S3

if TYPE_CHECKING:
    from botocore.session import Session

SESSION_NAME = "sluice"
# The end of keys that do not end.
NEVER = datetime(9999, 1, 1, tzinfo=UTC)
_CONNECT_SECONDS, _ANSWER_SECONDS, _ATTEMPTS = 5, 10, 3
_LONGEST_FILE = 1 << 20
# A machine's endpoint, which botocore asks once: no answer would look like no role.
_METADATA_ATTEMPTS = "metadata_service_num_attempts", "AWS_METADATA_SERVICE_NUM_ATTEMPTS", 3


@dataclass(frozen=True)
class Source:
    """``ask``: gives credentials, as botocore's refreshable ones take them. ``method``: botocore's name of
    the place of a chain where they, or the keys below a role, were found; empty without a chain."""

    ask: Callable[[], dict[str, Any]]
    method: str = ""


def source_of(s3: S3) -> Source:
    """Raises botocore's errors, and ValueError."""
    if not s3.role_arn:
        found = _keys(s3)
        return Source(lambda: _metadata(found), found.method)
    name = s3.role_session_name or SESSION_NAME
    method = ""
    if s3.web_identity_token_file:
        fetcher: Any = AssumeRoleWithWebIdentityCredentialFetcher(
            _sts(s3), _token_of(s3), s3.role_arn, {"RoleSessionName": name}
        )
    else:
        more = {"RoleSessionName": name} | ({"ExternalId": s3.external_id} if s3.external_id else {})
        found = _keys(s3)
        fetcher, method = AssumeRoleCredentialFetcher(_sts(s3), found, s3.role_arn, more), found.method
    # Its own cache gives nothing again within 15 minutes of its end, when it is asked first.
    return Source(fetcher.fetch_credentials, method)


def _keys(s3: S3) -> Credentials:
    if s3.access_key:
        return Credentials(s3.access_key, s3.secret_key, s3.session_token or None)
    session = botocore.session.Session(profile=s3.profile or None)
    name, variable, attempts = _METADATA_ATTEMPTS
    if variable not in os.environ:
        session.set_config_variable(name, attempts)
    found = session.get_credentials()
    if found is None:
        where = "the profile has no login" if s3.profile else "they are none: no keys, no profile and no role"
        raise ValueError(where)
    return found


def files_of(s3: S3) -> tuple[str, ...]:
    """Those in which AWS's chain, or a profile, finds a login."""
    if s3.access_key or s3.web_identity_token_file:
        return ()
    names = ("credentials_file", "config_file")
    return tuple(str(Path(plain_session().get_config_variable(name)).expanduser()) for name in names)


def _metadata(found: Credentials) -> dict[str, Any]:
    keys = found.get_frozen_credentials()
    ends = getattr(found, "_expiry_time", None) or NEVER
    return {
        "access_key": keys.access_key,
        "secret_key": keys.secret_key,
        "token": keys.token,
        "expiry_time": ends.isoformat(),
    }


def _sts(s3: S3) -> Callable[..., Any]:
    """Makes clients of STS, as botocore's own fetchers ask for them."""

    def create(service: str, **arguments: Any) -> Any:
        bounds = Config(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_ANSWER_SECONDS,
            retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
            proxies=for_botocore(s3.sts_endpoint or of_aws("sts", s3.region)),
        )
        given = arguments.pop("config", None)
        return plain_session().create_client(
            service,
            region_name=s3.region,
            endpoint_url=s3.sts_endpoint or None,
            verify=s3.ca_location or None,
            config=bounds.merge(given) if given else bounds,
            **arguments,
        )

    return create


def _token_of(s3: S3) -> Callable[[], str]:
    def read() -> str:
        with Path(s3.web_identity_token_file).open("rb") as file:
            text = file.read(_LONGEST_FILE).decode().strip()
        if not text:
            raise ValueError("the file is empty")
        return text

    return read


@cache
def plain_session() -> Session:
    """Without a login of its own; all clients share its descriptions of services."""
    return botocore.session.get_session()
