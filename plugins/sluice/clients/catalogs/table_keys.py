"""The keys of S3 that a REST catalog gives for one table, and when they are to be renewed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sluice.config.platform_sections.s3 import S3
from sluice.config.reading.urls import PLAIN_TEXT, host_of, is_plain
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused

ENDPOINT = "s3.endpoint"
# In ms since 1970.
KEYS_END = "s3.session-token-expires-at-ms"
# How long keys that do not say it are taken to be good.
USUAL_SECONDS = 900.0
# Keys are renewed once this part of their time is over, and the catalog is asked not more often than this: it
# may give the same keys again.
RENEWED_AFTER, RETRY_SECONDS = 2 / 3, 5.0


@dataclass(frozen=True)
class TableKeys:
    """Keys of one table.

    ``s3``: the user's keys, with the endpoint and the region of the table's bucket; ``received``, ``ends``:
    seconds since 1970, None for keys that do not say when they end.
    """

    s3: S3
    received: float = field(compare=False)
    ends: float | None = None

    @property
    def last(self) -> float:
        """Until when they are good, as far as known."""
        return _last(self.received, self.ends)

    def is_due(self, now: float) -> bool:
        """Whether they are to be renewed."""
        return now >= due_at(self.received, self.ends)

    def has_ended(self, now: float) -> bool:
        return self.ends is not None and now >= self.ends


def _last(received: float, ends: float | None) -> float:
    return received + USUAL_SECONDS if ends is None else ends


def due_at(received: float, ends: float | None) -> float:
    """When keys are to be renewed that were received then and end then, None if they do not say it."""
    return received + (_last(received, ends) - received) * RENEWED_AFTER


def ends_of(said: object) -> float | None:
    """The value of KEYS_END in seconds since 1970; None if it is no number, as without it."""
    text = str(said)
    return int(text) / 1000 if text.isdecimal() else None


def plain_endpoint(where: str, address: str) -> str:
    """The message for a catalog (``where``) that says such an address."""
    return (
        f"{where} says {ENDPOINT} {host_of(address)}, another machine, to which all objects, and the token "
        "of their keys, would be sent in plain text. Fix: let it say an address with https://, or, "
        f"{PLAIN_TEXT} in [s3] of the role's platform file"
    )


def table_keys(table: str, properties: Mapping[str, Any], s3: S3, now: float) -> TableKeys:
    """The keys among the properties of a table's files, which PyIceberg has of the catalog's answer. What
    that does not say of endpoint and region is as in ``s3``. Raises Refused without keys, and for an endpoint
    to which all would be sent in plain text.

    Names: https://iceberg.apache.org/rest-catalog-spec (LoadTableResult), Iceberg's S3FileIOProperties.
    """

    def said(*names: str) -> str:
        return next((str(properties[name]) for name in names if properties.get(name)), "")

    access_key, secret_key = said("s3.access-key-id"), said("s3.secret-access-key")
    if not (access_key and secret_key):
        raise Refused(
            f"table {table}: the catalog gives no keys for its files: none of the answer, or none for the "
            "table's prefix. Fix: let the catalog give keys for the table's bucket to the role's login, or "
            "leave out access_delegation in [lake.catalog]",
            ErrorCode.CATALOG_KEYS,
        )
    endpoint = said(ENDPOINT)
    if is_plain(endpoint) and not s3.plain_text:
        raise Refused(plain_endpoint(f"table {table}: the catalog", endpoint), ErrorCode.CATALOG_BROKEN)
    path_style = said("s3.path-style-access")
    return TableKeys(
        replace(
            s3,
            access_key=access_key,
            secret_key=secret_key,
            endpoint=endpoint or s3.endpoint,
            region=said("client.region", "s3.region") or s3.region,
            path_style=path_style == "true" if path_style else s3.path_style,
            session_token=said("s3.session-token"),
            profile="",
            role_arn="",
        ),
        now,
        ends_of(said(KEYS_END)),
    )
