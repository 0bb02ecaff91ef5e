"""The S3 client of a role, its timeouts and retries, its requests, and bodies of objects."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from sluice.config.platform_sections.s3 import S3

Item = TypeVar("Item")
Answer = TypeVar("Answer")

# Not by urllib, which takes a `?` and a `#` of a key for a query and a fragment.
_S3_URI = re.compile(r"s3a?://([^/?#]+)(?:/(.*))?", re.DOTALL)


# To S3 at once, of one client.
S3_REQUESTS = 16


@dataclass(frozen=True)
class Limits:
    """How long a client waits for a connection and for an answer, and how often it sends each request."""

    connect_seconds: float = 5
    read_seconds: float = 60
    attempts: int = 5


USUAL = Limits()
# Where what is shown is older then, and asked for again: pages, and the observer.
QUICK = Limits(connect_seconds=3, read_seconds=5, attempts=1)
# For a process that has seconds left.
BRIEF = Limits(connect_seconds=2, read_seconds=3, attempts=1)


def connect(s3: S3, limits: Limits = USUAL) -> S3Client:
    """A client with the role's login; nothing is sent yet."""
    # Pages and the DAG processor import this module for its limits.
    from sluice.clients.s3.login.session import client

    return client(s3, limits)


def at_once(items: Iterable[Item], request: Callable[[Item], Answer]) -> list[Answer]:
    """The requests' answers in the order of the items, S3_REQUESTS of them at a time. Raises the error of the
    first that fails, and sends no more."""
    items = list(items)
    if len(items) < 2:
        return [request(item) for item in items]
    with ThreadPoolExecutor(S3_REQUESTS) as threads:
        return list(threads.map(request, items))


def split(uri: str) -> tuple[str, str]:
    """``s3://bucket/a?b#c/`` (or ``s3a://``) -> ``("bucket", "a?b#c/")``: a key may have any character.

    Raises ValueError for another scheme.
    """
    match = _S3_URI.fullmatch(uri)
    if match is None:
        raise ValueError(f"{uri!r} is no S3 address. Fix: write s3://bucket/prefix")
    return match[1], match[2] or ""


def split_prefix(uri: str) -> tuple[str, str]:
    """As :func:`split`, of a folder: its key without slashes around it."""
    bucket, key = split(uri)
    return bucket, key.strip("/")


def read_json(client: S3Client, uri: str) -> Any:
    """The JSON document at ``s3://bucket/key``. Raises Missing, Refused or Unreachable."""
    from sluice.clients.s3.errors import asking

    bucket, key = split(uri)
    with asking(f"document {uri}"):
        return json.load(client.get_object(Bucket=bucket, Key=key)["Body"])


def read_change(client: S3Client, uri: str, what: str = "result of a change") -> Any:
    """The document of a change's result, or ``what`` else a snapshot of the table names. Raises Refused, also
    if it is gone (LAKE_FILE_MISSING), or Unreachable."""
    from sluice.core.error_codes import ErrorCode
    from sluice.core.errors import Missing, Refused
    from sluice.core.tables.file_removal import missing_message

    try:
        return read_json(client, uri)
    except Missing as error:
        message = f"{what}: {missing_message(uri)}"
        raise Refused(message, ErrorCode.LAKE_FILE_MISSING) from error
