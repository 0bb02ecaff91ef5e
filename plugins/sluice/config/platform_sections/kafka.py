"""``[kafka]`` of a platform file: the brokers, one login to them, and the settings of their clients.

``sluice.clients.kafka.login`` makes of it what each client takes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated
from urllib.parse import urlsplit

from sluice.config.reading import limits
from sluice.config.reading.logins import check_key_has_certificate, check_token_endpoint
from sluice.config.reading.toml import ConfigError
from sluice.config.reading.urls import PLAIN_TEXT, is_loopback
from sluice.config.reading.values import shown

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
OAUTHBEARER, AWS_MSK_IAM = "OAUTHBEARER", "AWS_MSK_IAM"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER, AWS_MSK_IAM)
# Mechanism -> the keys that have a meaning for it alone.
_OAUTH, _AWS = "sasl_oauthbearer_", "aws_"
_FILE = "file"
# As Kafka's own clients take them (RFC 7628 allows values that this project has no use for).
_EXTENSION = re.compile(r"([A-Za-z]+)=([!-+\--~]+)")
_ROLE = re.compile(r"arn:[a-z-]+:iam::\d{12}:role/[\w+=,.@/-]+")
_REGION = re.compile(r"[a-z]{2,}(-[a-z]+)+-\d")
# A name, or an address of IPv4, or one of IPv6 in brackets; and the port, which Java's clients ask for. What
# librdkafka takes beside, as a protocol in front, none of the others does.
_BROKER = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")
_LAST_PORT = 65535


@dataclass(frozen=True)
class Kafka:
    """The brokers and one user's login, by the names that librdkafka and Java's clients have for it."""

    bootstrap_servers: Annotated[str, "brokers, as `host:port`, separated by commas"]
    security_protocol: Annotated[str, "`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`"] = "PLAINTEXT"
    sasl_mechanism: Annotated[
        str,
        "[login](#kafka): `PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512`, `OAUTHBEARER` or `AWS_MSK_IAM`; empty: "
        "none, or a certificate",
    ] = ""
    username: Annotated[str, "`PLAIN`, `SCRAM-…`: any name: only its rights matter"] = ""
    password: Annotated[str, "of `username`"] = field(default="", repr=False)
    ssl_ca_location: Annotated[str, "path of a PEM file with the broker's CA; empty: the system's CAs"] = ""
    ssl_certificate_location: Annotated[
        str, "path of a PEM file with a client's certificate and its chain; empty: none"
    ] = ""
    ssl_key_location: Annotated[
        str, "path of a PEM file with the certificate's key; empty: in the same file"
    ] = ""
    ssl_key_password: Annotated[str, "the key's passphrase, if it is encrypted"] = field(
        default="", repr=False
    )
    sasl_oauthbearer_token_endpoint_url: Annotated[
        str,
        "`OAUTHBEARER`: `https://` address of OAuth2's token endpoint, or `file://` with the path of a file "
        "with a token (a JWT), which another program renews",
    ] = ""
    sasl_oauthbearer_client_id: Annotated[str, "`OAUTHBEARER`: at the token endpoint"] = ""
    sasl_oauthbearer_client_secret: Annotated[str, "`OAUTHBEARER`: of the client id"] = field(
        default="", repr=False
    )
    sasl_oauthbearer_scope: Annotated[str, "`OAUTHBEARER`: of the tokens; several with blanks between"] = ""
    sasl_oauthbearer_audience: Annotated[
        str, "`OAUTHBEARER`: parameter `audience` of the request, if the token endpoint asks for it"
    ] = ""
    sasl_oauthbearer_extensions: Annotated[
        str,
        "`OAUTHBEARER`: what the cluster asks for beside the token, as "
        "`logicalCluster=lkc-1,identityPoolId=pool-1`",
    ] = ""
    https_ca_location: Annotated[
        str, "`OAUTHBEARER`: path of a PEM file with the token endpoint's CA; empty: the system's CAs"
    ] = ""
    aws_region: Annotated[str, "`AWS_MSK_IAM`: of the cluster"] = ""
    aws_role_arn: Annotated[
        str, "`AWS_MSK_IAM`: a role that is assumed; empty: that of AWS's default credentials"
    ] = ""
    max_batch_mb: Annotated[
        int,
        "a record batch with more MiB, decompressed, is not read: a few bytes can stand for gigabytes. A "
        "process takes about five times as much memory",
    ] = 64
    plain_text: Annotated[
        bool,
        "true: brokers on other machines are sent records, and a login, without encryption, in a network "
        "that you trust",
    ] = False

    @property
    def max_batch_bytes(self) -> int:
        """``max_batch_mb`` in bytes."""
        return self.max_batch_mb << 20

    @property
    def is_encrypted(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @property
    def hosts(self) -> tuple[str, ...]:
        """Those of ``bootstrap_servers``, without their ports."""
        servers = [one.strip() for one in self.bootstrap_servers.split(",")]
        return tuple(one.rpartition(":")[0] or one for one in servers)

    @property
    def token_file(self) -> str:
        """The path of the file with the token; empty without one."""
        parts = urlsplit(self.sasl_oauthbearer_token_endpoint_url)
        return parts.path if parts.scheme == _FILE else ""

    @property
    def extensions(self) -> Mapping[str, str]:
        """``sasl_oauthbearer_extensions`` by their names."""
        found = filter(None, self.sasl_oauthbearer_extensions.split(","))
        return dict(one.split("=", 1) for one in found)

    @property
    def files(self) -> tuple[str, ...]:
        """The files that are read again after they were replaced, but for that of a token."""
        found = (self.ssl_ca_location, self.ssl_certificate_location, self.ssl_key_location)
        return tuple(filter(None, found))


def check(kafka: Kafka, where: str) -> None:
    """Raises ConfigError for a number out of its bounds, and a login that no client can use."""
    limits.check(kafka, "kafka", where)
    where = f"{where}: kafka"
    for key, known in (("security_protocol", PROTOCOLS), ("sasl_mechanism", ("", *MECHANISMS))):
        if getattr(kafka, key) not in known:
            names = ", ".join(filter(None, known))
            raise ConfigError(f"{where} {key} is {shown(getattr(kafka, key))}. Fix: use one of {names}")
    _check_brokers(kafka, where)
    if kafka.security_protocol.startswith("SASL_") and not kafka.sasl_mechanism:
        raise ConfigError(
            f"{where} security_protocol is {kafka.security_protocol}, and sasl_mechanism is missing. Fix: "
            f"add it, one of {', '.join(MECHANISMS)}"
        )
    _check_keys(kafka, where)
    for key in ("username", "password", "ssl_key_password"):
        if "\0" in getattr(kafka, key):
            raise ConfigError(f"{where} {key} has the character 0, which no login can have. Fix: correct it")
    _check_encryption(kafka, where)
    if kafka.sasl_mechanism == OAUTHBEARER:
        _check_oauth(kafka, where)
    if kafka.sasl_mechanism == AWS_MSK_IAM:
        _check_aws(kafka, where)
    _check_plain_text(kafka, where)


def _check_brokers(kafka: Kafka, where: str) -> None:
    """Each client makes its own of an empty entry, and of a host without a port."""
    for one in kafka.bootstrap_servers.split(","):
        matched = _BROKER.fullmatch(one.strip())
        if matched is None or not 0 < int(matched[1]) <= _LAST_PORT:
            raise ConfigError(
                f"{where} bootstrap_servers has {shown(one.strip())}. Fix: write each broker as host:port, "
                "an address of IPv6 as [::1]:9092, and one comma between two"
            )


def _check_keys(kafka: Kafka, where: str) -> None:
    """What is declared, and would not be used."""
    for prefix, mechanism in ((_OAUTH, OAUTHBEARER), ("https_", OAUTHBEARER), (_AWS, AWS_MSK_IAM)):
        named = [one.name for one in fields(kafka) if one.name.startswith(prefix)]
        if kafka.sasl_mechanism != mechanism and (key := next((k for k in named if getattr(kafka, k)), "")):
            raise ConfigError(
                f"{where} {key} has no meaning with sasl_mechanism {kafka.sasl_mechanism!r}. Fix: remove it, "
                f'or write sasl_mechanism = "{mechanism}"'
            )
    login = ("sasl_mechanism", "username", "password")
    found = next((key for key in login if getattr(kafka, key)), "")
    if found and not kafka.security_protocol.startswith("SASL_"):
        raise ConfigError(
            f"{where} {found} is there, and security_protocol {kafka.security_protocol} has no login. Fix: "
            f'write security_protocol = "SASL_SSL", or remove {found}'
        )
    if kafka.sasl_mechanism in (OAUTHBEARER, AWS_MSK_IAM) and (kafka.username or kafka.password):
        raise ConfigError(
            f"{where} username and password have no meaning with sasl_mechanism {kafka.sasl_mechanism}. Fix: "
            "remove them"
        )


def _check_encryption(kafka: Kafka, where: str) -> None:
    check_key_has_certificate(kafka, where)
    if kafka.is_encrypted:
        return
    for key in ("ssl_ca_location", "ssl_certificate_location"):
        if getattr(kafka, key):
            raise ConfigError(
                f"{where} {key} is there, and security_protocol {kafka.security_protocol} is not encrypted. "
                "Fix: write SSL, or SASL_SSL"
            )


def _check_plain_text(kafka: Kafka, where: str) -> None:
    if kafka.is_encrypted or kafka.plain_text:
        return
    if away := next((host for host in kafka.hosts if not is_loopback(host)), ""):
        sent = "the login and all records" if kafka.sasl_mechanism else "all records"
        raise ConfigError(
            f"{where} security_protocol is {kafka.security_protocol}, and {shown(away)} of bootstrap_servers "
            f"is another machine, to which {sent} would be sent in plain text. Fix: write "
            f"{'SASL_SSL' if kafka.sasl_mechanism else 'SSL'}, or, {PLAIN_TEXT}"
        )


def _check_oauth(kafka: Kafka, where: str) -> None:
    key, url = f"{_OAUTH}token_endpoint_url", kafka.sasl_oauthbearer_token_endpoint_url
    login = tuple(f"{_OAUTH}{name}" for name in ("client_id", "client_secret"))
    if url.startswith(f"{_FILE}:"):
        if urlsplit(url).netloc or not kafka.token_file.startswith("/"):
            raise ConfigError(f"{where} {key} is {shown(url)}. Fix: write file:// and an absolute path")
        asked = (*login, f"{_OAUTH}scope", f"{_OAUTH}audience", "https_ca_location")
        if extra := next((one for one in asked if getattr(kafka, one)), ""):
            raise ConfigError(
                f"{where} {extra} has no meaning for a token of a file. Fix: remove it, or name a token "
                "endpoint"
            )
    else:
        check_token_endpoint(kafka, where, key, *login)
    for one in filter(None, kafka.sasl_oauthbearer_extensions.split(",")):
        matched = _EXTENSION.fullmatch(one)
        if matched is None or matched[1] == "auth":
            raise ConfigError(
                f"{where} {_OAUTH}extensions has {shown(one)}. Fix: write name=value, a name of letters "
                "except auth, and commas between"
            )


def _check_aws(kafka: Kafka, where: str) -> None:
    if kafka.security_protocol != "SASL_SSL":
        raise ConfigError(
            f"{where} security_protocol is {kafka.security_protocol}, and AWS_MSK_IAM is encrypted always. "
            'Fix: write security_protocol = "SASL_SSL", and the brokers\' port 9098'
        )
    if not _REGION.fullmatch(kafka.aws_region):
        raise ConfigError(f"{where} aws_region is {shown(kafka.aws_region)}. Fix: write it as eu-central-1")
    if kafka.aws_role_arn and not _ROLE.fullmatch(kafka.aws_role_arn):
        raise ConfigError(
            f"{where} aws_role_arn is {shown(kafka.aws_role_arn)}. Fix: write it as "
            "arn:aws:iam::<account>:role/<name>"
        )
