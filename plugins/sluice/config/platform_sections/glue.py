"""``[lake.catalog]`` of type ``glue``: AWS Glue, by the properties of both of Iceberg's clients."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sluice.config.reading.toml import ConfigError
from sluice.config.reading.urls import VISIBLE, check_encrypted, check_no_login, check_url
from sluice.config.reading.values import shown

if TYPE_CHECKING:
    from sluice.config.platform_sections.catalog import Catalog
    from sluice.config.platform_sections.s3 import S3

GLUE = "glue"
KEYS = ("endpoint", "region", "catalog_id", "access_key", "secret_key", "session_token", "plain_text")
# What PyIceberg is told of the login -> the property of the JVM's own system, where the AWS SDK looks first:
# Iceberg's Java catalog has no property for it, and its `client.credentials-provider` counts for S3 too.
JVM_LOGIN = {
    "glue.access-key-id": "aws.accessKeyId",
    "glue.secret-access-key": "aws.secretAccessKey",
    "glue.session-token": "aws.sessionToken",
}
# An account's number, or with `:` and slashes the path of a catalog in it.
_CATALOG_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_:/.-]{0,254}")
_REGION = re.compile(r"[a-z0-9-]{1,63}")


def with_defaults(catalog: Catalog, s3: S3) -> Catalog:
    """With the region and the login of ``[s3]`` unless it has its own; also of a REST catalog whose requests
    are signed."""
    if catalog.type != GLUE and not catalog.signing_name:
        return catalog
    filled = replace(catalog, region=catalog.region or s3.region)
    if catalog.access_key or catalog.secret_key or catalog.session_token or not s3.has_fixed_login:
        return filled
    return replace(filled, access_key=s3.access_key, secret_key=s3.secret_key, session_token=s3.session_token)


def address(catalog: Catalog) -> str:
    """What tells this catalog from another one."""
    place = catalog.endpoint or f"https://glue.{catalog.region}.amazonaws.com"
    return f"{place}/{catalog.catalog_id}" if catalog.catalog_id else place


def properties(catalog: Catalog) -> dict[str, str]:
    """For both clients: the names of PyIceberg's are none of Java's, and the other way round."""
    found = {
        "type": GLUE,
        "glue.id": catalog.catalog_id,
        "glue.endpoint": catalog.endpoint,
        "client.region": catalog.region,
        "glue.region": catalog.region,
        "glue.access-key-id": catalog.access_key,
        "glue.secret-access-key": catalog.secret_key,
        "glue.session-token": catalog.session_token,
    }
    return {name: value for name, value in found.items() if value}


def jvm_login(found: Mapping[str, str]) -> dict[str, str]:
    """The properties of a JVM's system by :func:`properties`; empty: it must not be there."""
    return {ours: found.get(name, "") for name, ours in JVM_LOGIN.items()}


def check(catalog: Catalog, where: str) -> None:
    """Raises ConfigError naming ``where`` and the key, never a secret."""
    check_keys(catalog, where)
    if (text := catalog.catalog_id) and not _CATALOG_ID.fullmatch(text):
        raise ConfigError(f"{where}: catalog_id is {shown(text)}. Fix: write it as AWS shows it")
    if catalog.endpoint:
        _check_endpoint(catalog, where)


def check_keys(catalog: Catalog, where: str) -> None:
    """Keys and region, also of a REST catalog whose requests are signed."""
    if bool(catalog.access_key) != bool(catalog.secret_key):
        given, needed = ("access_key", "secret_key") if catalog.access_key else ("secret_key", "access_key")
        raise ConfigError(f"{where}: {given} is there, and {needed} is missing. Fix: add it, or remove both")
    if catalog.session_token and not catalog.access_key:
        raise ConfigError(
            f"{where}: session_token is there, and access_key is missing. Fix: add the keys that it is of"
        )
    for key in ("access_key", "secret_key", "session_token"):
        if (text := getattr(catalog, key)) and not VISIBLE.fullmatch(text):
            raise ConfigError(
                f"{where}: {key} has a character that no login of AWS has. Fix: use visible ASCII only"
            )
    if (text := catalog.region) and not _REGION.fullmatch(text):
        raise ConfigError(f"{where}: region is {shown(text)}. Fix: write it as AWS shows it")


def check_login(catalog: Catalog, s3: S3, where: str) -> None:
    """Raises ConfigError for keys of its own beside a login of ``[s3]`` that is renewed: Iceberg's Java
    client has one for both."""
    if catalog.type == GLUE and catalog.access_key and not s3.has_fixed_login:
        raise ConfigError(
            f"{where}: access_key is there, and [s3] has a login without fixed keys, which the catalog's "
            "Java client would take. Fix: remove access_key and secret_key, and give [s3]'s login the rights "
            "in Glue"
        )


def _check_endpoint(catalog: Catalog, where: str) -> None:
    check_no_login(catalog.endpoint, f"{where}: endpoint")
    check_url(catalog.endpoint, f"{where}: endpoint")
    parts = urlsplit(catalog.endpoint)
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ConfigError(f"{where}: endpoint has more than a host and a port. Fix: leave out the rest")
    if not catalog.plain_text:
        danger = ", without encryption: who stands between could answer in its place"
        check_encrypted(catalog.endpoint, f"{where}: endpoint", danger)
