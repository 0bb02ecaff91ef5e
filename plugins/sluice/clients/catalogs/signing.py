"""Requests to a REST catalog that are signed by AWS's SigV4: with which keys, and what its refusal means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyiceberg.catalog import BOTOCORE_SESSION
from pyiceberg.catalog.rest import SIGV4
from requests import JSONDecodeError, Response

from sluice.config.platform_sections import signing
from sluice.config.platform_sections.s3 import of_properties
from sluice.core.http_dates import http_date
from sluice.core.messages import age

if TYPE_CHECKING:
    from botocore.session import Session

FORBIDDEN = 403
# AWS's front ends refuse a signature by themselves, without a document of Iceberg's.
_KIND_HEADER = "x-amzn-errortype"
# More than the clocks of machines that are set differ; AWS allows five minutes.
CLOCK_SLACK_SECONDS = 60.0
# AWS's names for a login that it does not take, of services that answer alike; and words of their messages.
LOGIN = frozenset(
    {
        *("UnrecognizedClientException", "InvalidClientTokenId", "InvalidAccessKeyId", "OptInRequired"),
        *("InvalidSignatureException", "SignatureDoesNotMatch", "IncompleteSignatureException"),
        *("ExpiredTokenException", "ExpiredToken", "RequestExpired", "RequestTimeTooSkewed"),
        *("MissingAuthenticationTokenException", "MissingAuthenticationToken", "InvalidToken"),
    }
)
_WORDS = re.compile(
    rf"\b(?:{'|'.join(sorted(LOGIN))})\b|security token|request signature|[Ss]ignature (?:expired|not yet)|"
    r"scoped to a valid region|scoped to correct service"
)


def is_login(text: str) -> bool:
    """Whether AWS's words refuse the login itself, and no right of it."""
    return bool(_WORDS.search(text))


def properties_of(properties: Mapping[str, str]) -> dict[str, object]:
    """What PyIceberg is told beside ``properties`` of the platform file; nothing if it signs nothing."""
    if properties.get(signing.AUTH_TYPE) != signing.SIGV4:
        return {}
    return {SIGV4: "true", BOTOCORE_SESSION: session(properties)}


def session(properties: Mapping[str, str]) -> Session:
    """AWS's client with the declared keys, or with the login of ``[s3]``, which is renewed."""
    from sluice.clients.s3.login.session import botocore_session

    if not (key := properties.get(signing.ACCESS_KEY)):
        return botocore_session(of_properties(properties))
    made = botocore_session(None)
    made.set_credentials(key, properties[signing.SECRET_KEY], properties.get(signing.SESSION_TOKEN))
    return made


def refusal(answer: Response) -> str:
    """Why a login, or a right of it, was refused: in Iceberg's form, in AWS's own, or as it is. Empty for an
    answer that refuses neither."""
    if answer.status_code != FORBIDDEN:
        return ""
    try:
        document = answer.json()
    except JSONDecodeError:
        return answer.text or answer.reason
    found = document if isinstance(document, dict) else {}
    error = found.get("error")
    if isinstance(error, dict):
        return f"{error.get('type')}: {error.get('message')}"
    # As `InvalidSignatureException:http://internal.amazon.com/…`, or with a namespace before it.
    kind = str(answer.headers.get(_KIND_HEADER) or found.get("__type") or "").partition(":")[0]
    said = str(found.get("message") or found.get("Message") or "")
    return ": ".join(filter(None, (kind.rpartition("#")[2], said))) or answer.text


def clock_remark(answer: Response) -> str:
    """Which clock is to be set, if an answer's time says that one is wrong."""
    theirs = http_date(answer.headers.get("Date", ""))
    if theirs is None:
        return ""
    apart = (datetime.now(UTC) - theirs).total_seconds()
    if abs(apart) <= CLOCK_SLACK_SECONDS:
        return ""
    side = "ahead of" if apart > 0 else "behind"
    return f"this machine's clock is {age(abs(apart))} {side} the catalog's. Fix: set the clock"
