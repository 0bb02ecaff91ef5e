"""Platform files: one role's addresses and credentials of Kafka, S3 and the lake."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from sluice.config import postgresql
from sluice.config.reading import toml as config
from sluice.config.reading.toml import ConfigError, build
from sluice.config.reading.urls import VISIBLE, check_url

ROLES = ("airflow", "producer", "consumer", "reader", "maintenance", "observer")
DIRECTORY_VARIABLE = "SLUICE_PLATFORM_DIR"
CATALOG = "lake"
# For a statement in the catalog, which reads or swaps one pointer; and for its answer.
STATEMENT_SECONDS, ANSWER_SECONDS = 45, 60
# Least characters of a bearer token.
MIN_TOKEN = 24
# librdkafka's log, which it else writes to standard error, past every handler.
LIBRDKAFKA_LOG = logging.getLogger("librdkafka")
_CHECKPOINTS = re.compile(r"/|s3a://[^/]")


@dataclass(frozen=True)
class Kafka:
    """The brokers and one user's login."""

    bootstrap_servers: Annotated[str, "brokers, as `host:port`, separated by commas"]
    security_protocol: Annotated[str, "`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`"] = "PLAINTEXT"
    sasl_mechanism: Annotated[str, "`PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`; empty: no login"] = ""
    username: Annotated[str, "any name: only its rights matter"] = ""
    password: Annotated[str, "of `username`"] = field(default="", repr=False)
    ssl_ca_location: Annotated[str, "path of a PEM file with the broker's CA; empty: the system's CAs"] = ""

    def librdkafka(self) -> dict[str, Any]:
        """Configuration for confluent-kafka, whose clients log when they are polled."""
        settings: dict[str, Any] = {**self._servers(), "logger": LIBRDKAFKA_LOG}
        if self.sasl_mechanism:
            settings |= {
                "sasl.mechanism": self.sasl_mechanism,
                "sasl.username": self.username,
                "sasl.password": self.password,
            }
        if self.ssl_ca_location:
            settings["ssl.ca.location"] = self.ssl_ca_location
        return settings

    def _servers(self) -> dict[str, str]:
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "security.protocol": self.security_protocol,
        }

    def java(self) -> dict[str, str]:
        """Configuration for Java clients, and after the prefix ``kafka.`` for Spark's source and sink."""
        settings = self._servers()
        if self.sasl_mechanism:
            module = "plain.PlainLoginModule" if self.sasl_mechanism == "PLAIN" else "scram.ScramLoginModule"
            settings |= {
                "sasl.mechanism": self.sasl_mechanism,
                "sasl.jaas.config": f"org.apache.kafka.common.security.{module} required "
                f'username="{_jaas(self.username)}" password="{_jaas(self.password)}";',
            }
        if self.ssl_ca_location:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.ssl_ca_location}
        return settings


def _jaas(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


# To S3 at once, of one client.
S3_REQUESTS = 16


@dataclass(frozen=True)
class S3:
    """An S3 endpoint and one user's keys. Without ``endpoint``: AWS itself, in ``region``."""

    access_key: Annotated[str, "of the role's user"]
    secret_key: Annotated[str, "of the role's user"] = field(repr=False)
    endpoint: Annotated[str, "address; empty: AWS itself, in `region`"] = ""
    region: Annotated[str, "of the buckets"] = "us-east-1"
    path_style: Annotated[
        bool,
        "true: `https://host/bucket`, as for MinIO; false: `https://bucket.host`",
    ] = False

    def boto3(
        self, connect_seconds: float = 5, read_seconds: float = 60, attempts: int = 5
    ) -> dict[str, object]:
        """Keyword arguments for ``boto3.client("s3", …)``; ``attempts``: of each request, at most."""
        from botocore.config import Config

        return {
            "endpoint_url": self.endpoint or None,
            "region_name": self.region,
            "aws_access_key_id": self.access_key,
            "aws_secret_access_key": self.secret_key,
            "config": Config(
                s3={"addressing_style": "path" if self.path_style else "auto"},
                retries={"mode": "standard", "total_max_attempts": attempts},
                connect_timeout=connect_seconds,
                read_timeout=read_seconds,
                max_pool_connections=S3_REQUESTS,
            ),
        }


@dataclass(frozen=True)
class Lake:
    """The Iceberg warehouse, its JDBC catalog in PostgreSQL, and the ledger's prefix."""

    warehouse: Annotated[str, "`s3://` address of the tables; the same in all files"]
    ledger: Annotated[str, "`s3://` address of the ledger; the same in all files"]
    catalog_host: Annotated[str, "host of the PostgreSQL with the catalog"]
    catalog_port: Annotated[int, "its port"]
    catalog_database: Annotated[str, "its database"]
    catalog_user: Annotated[str, "the role's user there"]
    catalog_password: Annotated[str, "of `catalog_user`"] = field(repr=False)
    catalog_sslmode: Annotated[
        str,
        "`verify-full` (default, except for a host that is this machine: `disable`), `verify-ca`, `require` "
        "(encrypted, not verified) or `disable` (plain text); none falls back to plain text",
    ] = ""
    catalog_sslrootcert: Annotated[
        str,
        "path of a PEM file with the CA of the server's certificate; `verify-…` needs it",
    ] = ""

    @property
    def _ssl(self) -> dict[str, str]:
        """For every client alike."""
        ca = {"sslrootcert": self.catalog_sslrootcert} if self.catalog_sslrootcert else {}
        return {"sslmode": postgresql.ssl_mode(self.catalog_host, self.catalog_sslmode), **ca}

    def jdbc(self) -> dict[str, str]:
        """Properties of the JDBC driver."""
        login = {"user": self.catalog_user, "password": self.catalog_password}
        return login | self._ssl | postgresql.jdbc_timeouts(STATEMENT_SECONDS, ANSWER_SECONDS)

    def libpq(self, options: str = "") -> dict[str, Any]:
        """Arguments of ``psycopg2.connect``; ``options``: further ones of the session."""
        return {
            "host": self.catalog_host.strip("[]"),
            "port": self.catalog_port,
            "dbname": self.catalog_database,
            "user": self.catalog_user,
            "password": self.catalog_password,
            **self._ssl,
            **postgresql.libpq_timeouts(STATEMENT_SECONDS, options),
        }

    @property
    def _authority(self) -> str:
        """Host and port in a URL, where an address of IPv6 is in brackets."""
        host = self.catalog_host.strip("[]")
        return f"{f'[{host}]' if ':' in host else host}:{self.catalog_port}"

    @property
    def jdbc_uri(self) -> str:
        """The catalog's address for Java, without the password."""
        return f"jdbc:postgresql://{self._authority}/{self.catalog_database}"

    def pyiceberg(self, s3: S3) -> dict[str, str]:
        """Properties for PyIceberg's SqlCatalog, after an import of sluice.clients.databases.postgresql."""
        from urllib.parse import quote, urlencode

        user, password = (quote(text, safe="") for text in (self.catalog_user, self.catalog_password))
        query = self._ssl | postgresql.libpq_timeouts(STATEMENT_SECONDS)
        query |= {"plugin": postgresql.PLUGIN, postgresql.DEADLINE_KEY: ANSWER_SECONDS}
        properties = {
            "type": "sql",
            "uri": f"postgresql+psycopg2://{user}:{password}"
            f"@{self._authority}/{self.catalog_database}?{urlencode(query)}",
            "init_catalog_tables": "false",
            "warehouse": self.warehouse,
            "s3.region": s3.region,
            "s3.access-key-id": s3.access_key,
            "s3.secret-access-key": s3.secret_key,
        }
        if s3.endpoint:
            properties["s3.endpoint"] = s3.endpoint
        return properties


@dataclass(frozen=True)
class Source:
    """Where the objects to load lie."""

    bucket: Annotated[str, "the bucket of the objects to load"]


@dataclass(frozen=True)
class Checkpoints:
    """A folder on a volume, or an ``s3a://`` address. Its loss costs no offsets: they are in the lake."""

    root: Annotated[
        str,
        "of consumer and queries; the same in all files: an absolute path on this machine, or "
        "`s3a://bucket/prefix` with the login of `[s3]`. Its loss costs no offsets: they are in the lake",
    ]

    @property
    def in_bucket(self) -> bool:
        return self.root.startswith("s3a://")


@dataclass(frozen=True)
class Supervisor:
    """supervisord's XML-RPC address and login."""

    url: Annotated[str, "supervisord's XML-RPC address; `make up` writes this section"]
    username: Annotated[str, "of supervisord"]
    password: Annotated[str, "of supervisord"] = field(repr=False)


@dataclass(frozen=True)
class Strimzi:
    namespace: Annotated[
        str,
        "of the Kafka resource whose topics are [KafkaTopic resources](kubernetes.md#topics-through-strimzi)",
    ]
    cluster: Annotated[str, "name of the Kafka resource"]
    kubeconfig: Annotated[str, "path of a file; empty: the service account of the pod"] = ""


@dataclass(frozen=True)
class Kubernetes:
    """Where components and Spark jobs run as pods; ``mode``: one of MODES."""

    namespace: Annotated[
        str,
        "in which components and Spark jobs are [pods](kubernetes.md), instead of processes of supervisord",
    ]
    image: Annotated[str, "of all of them"]
    mode: Annotated[str, "`native`, or `operator` for clusters with the Spark operator"] = "native"
    overrides: Annotated[
        str,
        "name of a ConfigMap with an `overrides.toml` for the streams; empty: none",
    ] = ""
    kubeconfig: Annotated[str, "path of a file; empty: the service account of the pod"] = ""


MODES = ("native", "operator")


@dataclass(frozen=True)
class Metrics:
    token: Annotated[
        str,
        "24 characters or more, at random: by it Prometheus reads `/sluice/metrics`",
    ] = field(repr=False)
    checks_url: Annotated[
        str,
        "address of the process to which supervision reports its "
        "[checks](operating.md#when-nothing-checks-any-more); empty: to none",
    ] = ""


@dataclass(frozen=True)
class ObserverAccess:
    """Where the observer's process serves what it knows of the streams, and the bearer token for it."""

    url: Annotated[str, "address of the [observer](reference.md#the-observer), for pages and supervision"]
    token: Annotated[str, "24 characters or more, at random: by it they read it"] = field(repr=False)


@dataclass(frozen=True)
class Platform:
    """Everything that one role may know."""

    role: Annotated[
        str, "`airflow`, `producer`, `consumer`, `reader`, `maintenance` or `observer`: the file's name"
    ]
    kafka: Kafka
    s3: S3
    lake: Lake
    source: Source
    checkpoints: Checkpoints
    supervisor: Supervisor | None = None
    metrics: Metrics | None = None
    observer: ObserverAccess | None = None
    strimzi: Strimzi | None = None
    kubernetes: Kubernetes | None = None
    feeds: Annotated[
        dict[str, str],
        "stream = address of its feed, instead of its `[feed] url`; in the producer's and airflow's file "
        "only",
    ] = field(default_factory=dict)


def parse(text: str, where: str) -> Platform:
    """Raises ConfigError naming ``where`` and the key."""
    platform = build(Platform, config.toml(text, where), where)
    if platform.role not in ROLES:
        raise ConfigError(f"{where}: role {platform.role!r} is unknown; roles are {', '.join(ROLES)}")
    root = platform.checkpoints.root
    if not _CHECKPOINTS.match(root):
        raise ConfigError(
            f"{where}: checkpoints root is {root!r}: Spark writes checkpoints to a folder or through s3a://. "
            "Fix: write an absolute path, or s3a://bucket/prefix"
        )
    if platform.metrics:
        _check_metrics(platform.metrics, where)
    if platform.observer:
        _check_token(platform.observer.token, f"{where}: observer")
        check_url(platform.observer.url, f"{where}: observer url")
    if platform.kubernetes and platform.kubernetes.mode not in MODES:
        raise ConfigError(
            f"{where}: kubernetes mode is {platform.kubernetes.mode!r}. Fix: use {' or '.join(MODES)}"
        )
    lake = platform.lake
    keys = "catalog_sslmode", "catalog_sslrootcert"
    declared = lake.catalog_host, lake.catalog_sslmode, lake.catalog_sslrootcert
    postgresql.check_ssl(f"{where}: [lake]", *declared, keys)
    urls = {f"feeds {stream}": url for stream, url in platform.feeds.items()}
    if platform.supervisor:
        urls["supervisor url"] = platform.supervisor.url
    if platform.s3.endpoint:
        urls["s3 endpoint"] = platform.s3.endpoint
    for key, url in urls.items():
        check_url(url, f"{where}: {key}")
    return platform


def _check_token(token: str, where: str) -> None:
    if len(token) < MIN_TOKEN:
        raise ConfigError(f"{where} token is shorter than {MIN_TOKEN} characters. Fix: write a random one")
    if not VISIBLE.fullmatch(token):
        raise ConfigError(
            f"{where} token has a character that no header can have. Fix: use visible ASCII only"
        )


def _check_metrics(metrics: Metrics, where: str) -> None:
    _check_token(metrics.token, f"{where}: metrics")
    if metrics.checks_url:
        check_url(metrics.checks_url, f"{where}: metrics checks_url")


def load_metrics(environ: Mapping[str, str] | None = None) -> Metrics:
    """``[metrics]`` of role airflow's file, which may have nothing else for a process that needs no more of
    it. Raises ConfigError as :func:`config.read`, and without the section."""
    path, text = config.read(DIRECTORY_VARIABLE, "airflow", "it has [metrics]", environ)
    found = config.toml(text, path).get("metrics")
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: [metrics] is missing. Fix: add it, with a token")
    metrics = build(Metrics, found, f"{path} metrics")
    _check_metrics(metrics, path)
    return metrics


def load(role: str, environ: Mapping[str, str] | None = None) -> Platform:
    """Read the file of ``role``. Raises ConfigError as :func:`config.read`, and for another role in it."""
    path, text = config.read(DIRECTORY_VARIABLE, role, f"role {role!r} needs this file", environ)
    platform = parse(text, path)
    if platform.role != role:
        raise ConfigError(f"{path}: says role {platform.role!r}; it must say {role!r}")
    return platform
