"""``[lake.catalog]`` of type ``rest`` whose requests are signed (AWS's SigV4), by the properties of both of
Iceberg's clients: AWS Glue's REST API, Amazon S3 Tables, a catalog behind Amazon's API Gateway."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sluice.config.platform_sections import glue
from sluice.config.reading.toml import ConfigError
from sluice.config.reading.urls import check_encrypted
from sluice.config.reading.values import shown

if TYPE_CHECKING:
    from sluice.config.platform_sections.catalog import Catalog

# Those that have a meaning for requests that are signed alone.
KEYS = ("signing_name", "region", "access_key", "secret_key", "session_token")
# By the names of Iceberg's Java client; PyIceberg's are made of them (sluice.clients.catalogs.signing).
AUTH_TYPE, SIGV4 = "rest.auth.type", "sigv4"
NAME, REGION = "rest.signing-name", "rest.signing-region"
ACCESS_KEY, SECRET_KEY, SESSION_TOKEN = "rest.access-key-id", "rest.secret-access-key", "rest.session-token"
# The service whose tables have buckets of their own, of which no policy on S3 tells.
S3_TABLES = "s3tables"
# Service and region in the hosts of AWS's own REST catalogs, also of those in a private network.
_HOST = re.compile(
    r"(?:^|\.)(glue|s3tables)(?:-fips)?\.([\w-]+)(?:\.[\w-]+)*\.(?:amazonaws\.com|api\.aws)(?:\.cn)?$"
)
_NAME = re.compile(r"[a-z0-9-]{1,63}")


def with_defaults(catalog: Catalog) -> Catalog:
    """With service and region of AWS's own host, unless they are declared, or another login is."""
    found = _own_host(catalog)
    if found is None or catalog.token or catalog.credential:
        return catalog
    name, region = catalog.signing_name or found[1], catalog.region or found[2]
    return replace(catalog, signing_name=name, region=region)


def _own_host(catalog: Catalog) -> re.Match[str] | None:
    try:
        host = urlsplit(catalog.uri).hostname or ""
    except ValueError:
        # It is checked later.
        return None
    return _HOST.search(host)


def properties(catalog: Catalog) -> dict[str, str]:
    """Empty for requests that are not signed. Without keys each client has those of AWS's default chain."""
    if not catalog.signing_name:
        return {}
    return {
        AUTH_TYPE: SIGV4,
        # No token of OAuth2 beside it.
        "rest.auth.sigv4.delegate-auth-type": "none",
        NAME: catalog.signing_name,
        REGION: catalog.region,
        ACCESS_KEY: catalog.access_key,
        SECRET_KEY: catalog.secret_key,
        SESSION_TOKEN: catalog.session_token,
    }


def check(catalog: Catalog, where: str) -> None:
    """After :func:`with_defaults`. Raises ConfigError naming ``where`` and the key, never a secret."""
    if not catalog.signing_name:
        if key := next((one for one in KEYS if getattr(catalog, one)), ""):
            raise ConfigError(
                f"{where}: {key} is there, and signing_name is missing. Fix: add it, or remove {key}"
            )
        return
    if not _NAME.fullmatch(catalog.signing_name):
        raise ConfigError(
            f"{where}: signing_name is {shown(catalog.signing_name)}. Fix: write the name of AWS's service, "
            "as glue, s3tables or execute-api"
        )
    if key := next((one for one in ("token", "credential") if getattr(catalog, one)), ""):
        raise ConfigError(f"{where}: signing_name and {key}: there are two logins. Fix: keep one of them")
    if found := _own_host(catalog):
        for key, said in (("signing_name", found[1]), ("region", found[2])):
            if (declared := getattr(catalog, key)) != said:
                raise ConfigError(
                    f"{where}: {key} is {shown(declared)}, and the host of uri is of {said}. Fix: leave out "
                    f"{key}"
                )
    glue.check_keys(catalog, where)
    if catalog.access_delegation and not catalog.access_key:
        # Iceberg's Java client has one provider of keys for both, and files have none then.
        raise ConfigError(
            f"{where}: access_delegation is there, and no login that requests are signed with. Fix: add "
            "access_key and secret_key, or leave out access_delegation"
        )
    if not catalog.plain_text:
        danger = ", without encryption: who stands between could answer in its place"
        check_encrypted(catalog.uri, f"{where}: uri", danger)
