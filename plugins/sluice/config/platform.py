"""Platform files: addresses and credentials of one role, and their checks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from sluice.config.platform_sections import (
    catalog,
    checkpoints,
    glue,
    kafka,
    kubernetes,
    lake,
    metrics,
    registry,
    s3,
    signing,
    supervisor,
)
from sluice.config.platform_sections.checkpoints import Checkpoints
from sluice.config.platform_sections.kafka import Kafka
from sluice.config.platform_sections.kubernetes import Kubernetes, Strimzi
from sluice.config.platform_sections.lake import Lake
from sluice.config.platform_sections.metrics import Metrics, ObserverAccess
from sluice.config.platform_sections.registry import Registry
from sluice.config.platform_sections.s3 import S3, Source
from sluice.config.platform_sections.supervisor import Supervisor
from sluice.config.reading import files
from sluice.config.reading import toml as config
from sluice.config.reading.references import FILE, AirflowSecrets, References, is_reference, named_files
from sluice.config.reading.toml import ConfigError, build
from sluice.config.reading.urls import check_url
from sluice.core.processes.environment import referenced_by

ROLES = ("airflow", "producer", "consumer", "reader", "maintenance", "observer")
DIRECTORY_VARIABLE = "SLUICE_PLATFORM_DIR"


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
    registry: Registry | None = None
    feeds: Annotated[
        dict[str, str],
        "stream = address of its feed, instead of its `[feed] url`; in the producer's and airflow's file "
        "only",
    ] = field(default_factory=dict)

    def need_registry(self) -> Registry:
        """``[registry]``. Raises ConfigError without it."""
        if self.registry is None:
            raise ConfigError(
                f"{self.role}.toml: [registry] is missing, and a stream's records name schemas of one. Fix: "
                "add it, with its url"
            )
        return self.registry


def parse(text: str, where: str, references: References | None = None) -> Platform:
    """The platform file, with the texts that its references name. ``references``: how they are followed;
    None: by this process's files and environment. Raises ConfigError naming ``where`` and the key."""
    document = config.toml(text, where)
    _check_old_keys(document, where)
    platform = _with_defaults(build(Platform, document, where, references or References()))
    if platform.role not in ROLES:
        raise ConfigError(f"{where}: role {platform.role!r} is unknown; roles are {', '.join(ROLES)}")
    kafka.check(platform.kafka, where)
    s3.check(platform.s3, where)
    glue.check_login(platform.lake.catalog, platform.s3, f"{where}: [lake.catalog]")
    checkpoints.check(platform.checkpoints, where)
    if platform.metrics:
        metrics.check(platform.metrics, where)
    if platform.observer:
        metrics.check_observer(platform.observer, where)
    if platform.kubernetes:
        kubernetes.check(platform.kubernetes, where)
    if platform.registry:
        registry.check(platform.registry, where)
    lake.check(platform.lake, f"{where}: [lake]")
    catalog.check(platform.lake.catalog, f"{where}: [lake.catalog]")
    for stream, url in platform.feeds.items():
        check_url(url, f"{where}: feeds {stream}")
    if platform.supervisor:
        supervisor.check(platform.supervisor, where)
    return platform


def _with_defaults(platform: Platform) -> Platform:
    """What one section says in place of another one that does not."""
    filled = glue.with_defaults(signing.with_defaults(platform.lake.catalog), platform.s3)
    return replace(platform, lake=replace(platform.lake, catalog=filled))


def _check_old_keys(document: Mapping[str, Any], where: str) -> None:
    """Raise ConfigError for a catalog as it was declared before ``[lake.catalog]``, with what it is now."""
    lake = document.get("lake")
    old = [key for key in lake if key.startswith("catalog_")] if isinstance(lake, dict) else []
    if old:
        raise ConfigError(
            f'{where} lake: {old[0]} is now in [lake.catalog]. Fix: write there type = "sql", uri = '
            '"postgresql://host:port/database", username, password, sslmode and sslrootcert'
        )


def load_metrics(environ: Mapping[str, str] | None = None) -> Metrics:
    """``[metrics]`` of role airflow's file, which may have nothing else for a process that needs no more of
    it. Raises ConfigError as :func:`files.read`, and without the section."""
    path, text = files.read(DIRECTORY_VARIABLE, "airflow", "it has [metrics]", environ)
    found = config.toml(text, path).get("metrics")
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: [metrics] is missing. Fix: add it, with a token")
    declared = build(Metrics, found, f"{path} metrics", References(environ))
    metrics.check(declared, path)
    return declared


def load(
    role: str, environ: Mapping[str, str] | None = None, airflow: AirflowSecrets | None = None
) -> Platform:
    """Read the file of ``role``, and what it refers to. ``airflow``: Airflow's secrets backends, in a process
    of Airflow. Raises ConfigError as :func:`files.read`, and for another role in it."""
    path, text = files.read(DIRECTORY_VARIABLE, role, f"role {role!r} needs this file", environ)
    platform = parse(text, path, References(environ, airflow))
    if platform.role != role:
        raise ConfigError(f"{path}: says role {platform.role!r}; it must say {role!r}")
    return platform


def variables(role: str, environ: Mapping[str, str] | None = None) -> frozenset[str]:
    """The variables to which the file of ``role`` refers; empty if it cannot be read."""
    try:
        path, text = files.read(DIRECTORY_VARIABLE, role, f"role {role!r} needs this file", environ)
        return frozenset(referenced_by(config.toml(text, path)))
    except ConfigError:
        return frozenset()


def file_of(role: str, *keys: str, environ: Mapping[str, str] | None = None) -> str:
    """The file that has a text of the platform file of ``role``, by reference; empty if the text is in the
    platform file itself, or that cannot be read. ``keys``: of TOML, as "registry" and "token"."""
    try:
        path, text = files.read(DIRECTORY_VARIABLE, role, f"role {role!r} needs this file", environ)
        found: Any = config.toml(text, path)
    except ConfigError:
        return ""
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return str(found[FILE]) if is_reference(found, FILE) else ""


# The stamps of the file, and of each that it names.
Stamp = tuple[files.Stamp, ...]


def stamp(role: str, environ: Mapping[str, str] | None = None) -> Stamp:
    """Another one when the file of ``role``, or a file to which it refers, was replaced or changed. For a
    process that stays: what it opened by the earlier content is to be opened again."""
    folder = (os.environ if environ is None else environ).get(DIRECTORY_VARIABLE, "")
    path = f"{folder}/{role}.toml"
    try:
        named = [*named_files(config.toml(files.regular(path)[0].decode(), path))]
    except (OSError, ValueError):
        named = []
    return tuple(map(files.stamp_of, (path, *named)))
