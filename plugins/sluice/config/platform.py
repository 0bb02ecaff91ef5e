"""Platform files: addresses and credentials of one role, and their checks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from sluice.config import postgresql
from sluice.config.reading import files
from sluice.config.reading import toml as config
from sluice.config.reading.toml import ConfigError, build
from sluice.config.reading.urls import VISIBLE, check_url
from sluice.config.sections.kafka import Kafka
from sluice.config.sections.lake import Lake
from sluice.config.sections.s3 import S3

ROLES = ("airflow", "producer", "consumer", "reader", "maintenance", "observer")
DIRECTORY_VARIABLE = "SLUICE_PLATFORM_DIR"
# Least characters of a bearer token.
MIN_TOKEN = 24
_CHECKPOINTS = re.compile(r"/|s3a://[^/]")


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
    it. Raises ConfigError as :func:`files.read`, and without the section."""
    path, text = files.read(DIRECTORY_VARIABLE, "airflow", "it has [metrics]", environ)
    found = config.toml(text, path).get("metrics")
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: [metrics] is missing. Fix: add it, with a token")
    metrics = build(Metrics, found, f"{path} metrics")
    _check_metrics(metrics, path)
    return metrics


def load(role: str, environ: Mapping[str, str] | None = None) -> Platform:
    """Read the file of ``role``. Raises ConfigError as :func:`files.read`, and for another role in it."""
    path, text = files.read(DIRECTORY_VARIABLE, role, f"role {role!r} needs this file", environ)
    platform = parse(text, path)
    if platform.role != role:
        raise ConfigError(f"{path}: says role {platform.role!r}; it must say {role!r}")
    return platform
