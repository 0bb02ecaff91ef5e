"""``[s3]`` and ``[source]`` of a platform file: the endpoint, the login, and the bucket of the objects to
load.

``sluice.clients.s3.login`` makes of a login what each client takes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any

from sluice.config.reading.toml import ConfigError
from sluice.config.reading.urls import VISIBLE, check_encrypted, check_no_login, check_url, is_plain
from sluice.config.reading.values import shown

AES256, AWS_KMS = "AES256", "aws:kms"
ENCRYPTIONS = (AES256, AWS_KMS)
# Prefix of the properties that say it to PyIceberg's clients, which have no other words for all of it.
PROPERTY = "sluice.s3."
PLAIN_TEXT = f"{PROPERTY}plain_text"
OBJECTS_SHOWN = ", and all objects would be sent to it in plain text"
_FILE_IO = "sluice.clients.lake.file_io.DeclaredFileIO"
# AWS's have an account, MinIO's none.
_ROLE = re.compile(r"arn:[a-z0-9-]+:iam:[a-z0-9-]*:\d*:role/[\w+=,.@/-]+", re.ASCII)
_SESSION_NAME = re.compile(r"[\w+=,.@-]{2,64}", re.ASCII)
# The keys that have a meaning for a role that is assumed, and for it alone.
_OF_ROLE = ("external_id", "role_session_name", "web_identity_token_file", "sts_endpoint")


@dataclass(frozen=True)
class S3:
    """An S3 endpoint and one login. Without ``endpoint``: AWS itself, in ``region``; without keys,
    ``profile`` and ``web_identity_token_file``: the login of AWS's default chain."""

    access_key: Annotated[
        str,
        "of the role's user; empty, with `secret_key`: AWS's [default chain](#s3) (environment, profile, web "
        "identity, container, instance)",
    ] = ""
    secret_key: Annotated[str, "of `access_key`"] = field(default="", repr=False)
    endpoint: Annotated[str, "address; empty: AWS itself, in `region`"] = ""
    region: Annotated[str, "of the buckets"] = "us-east-1"
    path_style: Annotated[
        bool,
        "true: `https://host/bucket`, as for MinIO; false: `https://bucket.host`",
    ] = False
    session_token: Annotated[
        str, "of a temporary `access_key`; who renews the keys writes the file again, and restarts the stream"
    ] = field(default="", repr=False)
    profile: Annotated[str, "a profile of AWS's configuration files, instead of keys"] = ""
    role_arn: Annotated[
        str, "a role that is assumed with the login above, or with `web_identity_token_file`, and renewed"
    ] = ""
    external_id: Annotated[str, "that the role's trust policy asks for"] = ""
    role_session_name: Annotated[str, "of the role's sessions, as AWS's logs show it; empty: `sluice`"] = ""
    web_identity_token_file: Annotated[
        str,
        "path of a file with a token (a JWT), which another program renews, and with which `role_arn` is "
        "assumed",
    ] = ""
    sts_endpoint: Annotated[
        str, "address of the STS at which `role_arn` is assumed, as MinIO's own; empty: AWS's, in `region`"
    ] = ""
    ca_location: Annotated[
        str, "path of a PEM file with the CA of `endpoint` and `sts_endpoint`; empty: the system's CAs"
    ] = ""
    sse: Annotated[
        str,
        "server-side encryption of every object that is written: `AES256` or `aws:kms`; empty: as the bucket "
        "declares it",
    ] = ""
    sse_kms_key_id: Annotated[str, "`aws:kms`: the key; empty: AWS's own for S3"] = ""
    plain_text: Annotated[
        bool,
        "true: `endpoint` on another machine is sent all objects over `http://`, in a network that you trust",
    ] = False

    @property
    def has_fixed_login(self) -> bool:
        """Whether the keys are declared, and no role is assumed with them."""
        return bool(self.access_key) and not self.role_arn

    def properties(self) -> dict[str, str]:
        """All that is declared, as properties for PyIceberg, whose files are read and written with it;
        :func:`of_properties` reads them."""
        declared = {one.name: getattr(self, one.name) for one in fields(self)}
        texts = {name: str(value).lower() if value is True else value for name, value in declared.items()}
        named = {f"{PROPERTY}{name}": text for name, text in texts.items() if text}
        return {"py-io-impl": _FILE_IO, **named}


@dataclass(frozen=True)
class Source:
    """Where the objects to load lie."""

    bucket: Annotated[str, "the bucket of the objects to load"]


def of_properties(properties: Mapping[str, str]) -> S3:
    """As :meth:`S3.properties` made them."""
    said = {
        name.removeprefix(PROPERTY): text for name, text in properties.items() if name.startswith(PROPERTY)
    }
    flags = {name: name in said for name in ("path_style", "plain_text")}
    found: dict[str, Any] = {**said, **flags}
    return S3(**found)


def check(s3: S3, where: str) -> None:
    """Raises ConfigError naming ``where`` and the key, never a secret."""
    where = f"{where}: s3"
    _check_keys(s3, where)
    _check_role(s3, where)
    for key in ("endpoint", "sts_endpoint"):
        if url := getattr(s3, key):
            # Before any message shows it.
            check_no_login(url, f"{where} {key}")
            check_url(url, f"{where} {key}")
    if not s3.plain_text:
        check_encrypted(s3.endpoint, f"{where} endpoint", OBJECTS_SHOWN)
    _check_sts(s3, where)
    plain = s3.endpoint.startswith("http:") and not s3.sts_endpoint.startswith("https:")
    if s3.ca_location and plain:
        raise ConfigError(
            f"{where} ca_location is there, and endpoint {s3.endpoint} is not encrypted. Fix: write "
            "https://, or remove ca_location"
        )
    if s3.sse not in ("", *ENCRYPTIONS):
        raise ConfigError(f"{where} sse is {shown(s3.sse)}. Fix: use one of {', '.join(ENCRYPTIONS)}")
    if s3.sse_kms_key_id and s3.sse != AWS_KMS:
        raise ConfigError(
            f"{where} sse_kms_key_id has no meaning with sse {s3.sse!r}. Fix: remove it, or write sse = "
            f'"{AWS_KMS}"'
        )


def _check_keys(s3: S3, where: str) -> None:
    if bool(s3.access_key) != bool(s3.secret_key):
        given, needed = ("access_key", "secret_key") if s3.access_key else ("secret_key", "access_key")
        raise ConfigError(f"{where} {given} is there, and {needed} is missing. Fix: add it, or remove both")
    if s3.session_token and not s3.access_key:
        raise ConfigError(
            f"{where} session_token is there, and access_key is missing. Fix: add the keys that it is of"
        )
    for key in ("access_key", "secret_key", "session_token"):
        if (text := getattr(s3, key)) and not VISIBLE.fullmatch(text):
            raise ConfigError(f"{where} {key} has a character that no login has. Fix: use visible ASCII only")
    logins = [key for key in ("access_key", "profile", "web_identity_token_file") if getattr(s3, key)]
    if len(logins) > 1:
        raise ConfigError(f"{where} has {' and '.join(logins)}, which are logins of their own. Fix: keep one")


def _check_role(s3: S3, where: str) -> None:
    if not s3.role_arn:
        if extra := next((key for key in _OF_ROLE if getattr(s3, key)), ""):
            raise ConfigError(
                f"{where} {extra} is there, and role_arn is missing. Fix: add the role that is assumed, or "
                f"remove {extra}"
            )
        return
    if not _ROLE.fullmatch(s3.role_arn):
        raise ConfigError(
            f"{where} role_arn is {shown(s3.role_arn)}. Fix: write it as arn:aws:iam::<account>:role/<name>"
        )
    if s3.external_id and s3.web_identity_token_file:
        raise ConfigError(
            f"{where} external_id has no meaning with web_identity_token_file. Fix: remove it: the token "
            "says who asks"
        )
    if s3.role_session_name and not _SESSION_NAME.fullmatch(s3.role_session_name):
        raise ConfigError(
            f"{where} role_session_name is {shown(s3.role_session_name)}. Fix: write 2 to 64 letters, "
            "digits, or +=,.@-_"
        )
    if s3.web_identity_token_file and not s3.web_identity_token_file.startswith("/"):
        raise ConfigError(
            f"{where} web_identity_token_file is {shown(s3.web_identity_token_file)}. Fix: write an "
            "absolute path"
        )


def _check_sts(s3: S3, where: str) -> None:
    if is_plain(s3.sts_endpoint):
        raise ConfigError(
            f"{where} sts_endpoint {s3.sts_endpoint} is of another machine, and would send keys in plain "
            "text. Fix: write https://"
        )
