"""Apicurio: a schema registry with Confluent's API, its schemas on Kafka; only where a stream needs one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import httpx

from local.base import UsageError
from local.runtime.context import Context, with_parent
from local.runtime.home import write_files
from local.runtime.ports import HOST
from local.runtime.registry_access import GROUPS, TOPICS, USER, registry_logins
from local.runtime.supervisord import Program
from sluice.config.platform_sections.kafka import Kafka
from sluice.core.json_record import Document

NAME = "registry"
# Of the management interface, which says whether the journal is read; it has no login, and stays on loopback.
HEALTH = "registry_health"
# When the embedded stack runs one: if a stream needs it, or always.
NEEDED, ALWAYS = "needed", "always"
VARIABLE = "SLUICE_REGISTRY"


def chosen(requested: str | None, stored: str | None) -> str:
    """The requested setting, else the stored one. Raises UsageError for an unknown one."""
    setting = requested or stored or NEEDED
    if setting not in (NEEDED, ALWAYS):
        raise UsageError(f"{VARIABLE} is {setting!r}. Fix: give {NEEDED} or {ALWAYS}")
    return setting


def needs_registry(declared: Iterable[bool], setting: str) -> bool:
    """Whether a stack runs one. `declared`: of each stream, whether its records name schemas."""
    return setting == ALWAYS or any(declared)


def kafka_login(context: Context, section: Document | None = None) -> Kafka:
    """Its own user of Kafka. `section`: [kafka] of a platform file, of another Kafka than the stack's."""
    plain = {
        "bootstrap_servers": context.network.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
    }
    password = context.secrets["kafka_registry"]
    return Kafka(**{**(section or plain), "username": USER, "password": password})


def _folder(context: Context) -> Path:
    # Quarkus reads config/application.properties of its working directory: a path among its options would be
    # read as a URI.
    return context.home.conf / NAME


def properties(context: Context, login: Kafka) -> str:
    """Its configuration, passwords included: only for a file of mode 600. `login`: on Kafka."""
    settings = {
        "quarkus.http.host": context.network.bind,
        "quarkus.http.port": str(context.ports[NAME]),
        "quarkus.management.host": HOST,
        "quarkus.management.port": str(context.ports[HEALTH]),
        "quarkus.http.access-log.enabled": "false",
        "quarkus.banner.enabled": "false",
        "quarkus.log.console.format": "%d{yyyy-MM-dd'T'HH:mm:ss.SSSX}{UTC} %p %c{1}: %m%n%e",
        'quarkus.log.category."org.apache.kafka".level': "WARN",
        "apicurio.storage.kind": "kafkasql",
        "apicurio.kafkasql.bootstrap.servers": login.bootstrap_servers,
        # All schemas are read from one partition at each start, in their order.
        "apicurio.kafkasql.topic.partitions": "1",
        "apicurio.kafkasql.consumer.group-prefix": GROUPS,
        # It waits for two empty answers at its start.
        "apicurio.kafkasql.consumer.poll.timeout": "500",
        # Its database is in memory: the default keeps 20 connections open.
        "apicurio.datasource.jdbc.initial-size": "2",
        "apicurio.datasource.jdbc.min-size": "2",
        "apicurio.datasource.jdbc.max-size": "10",
        # Confluent's default; Apicurio's is NONE. A subject may have another.
        "apicurio.rules.global.compatibility": "BACKWARD",
        # It says at each start that this is decided when it is built; what reads it decides at the start.
        "quarkus.http.auth.basic": "true",
        "apicurio.auth.role-based-authorization": "true",
        "quarkus.security.users.embedded.plain-text": "true",
    }
    settings |= dict(zip(_TOPIC_KEYS, TOPICS, strict=True))
    settings |= {f"apicurio.kafka.common.{key}": value for key, value in login.java().items()}
    for user, (password, right) in registry_logins(context.secrets).items():
        settings[f"quarkus.security.users.embedded.users.{user}"] = password
        settings[f"quarkus.security.users.embedded.roles.{user}"] = right
    # As java.util.Properties reads them.
    return "".join(f"{key}={value}\n".replace("\\", "\\\\") for key, value in settings.items())


_TOPIC_KEYS = (
    "apicurio.kafkasql.topic",
    "apicurio.kafkasql.snapshots.topic",
    "apicurio.events.kafka.topic",
)


def files(context: Context, section: Document | None = None) -> dict[Path, str]:
    """Its configuration. `section`: as of :func:`kafka_login`."""
    file = _folder(context) / "config" / "application.properties"
    return {file: properties(context, kafka_login(context, section))}


def prepare(context: Context) -> None:
    """Write its configuration."""
    write_files(files(context))


def program(context: Context) -> Program:
    """Raises UsageError if the stack has none."""
    if context.registry is None:
        raise UsageError(f"the stack has no registry. Fix: set {VARIABLE}={ALWAYS}")
    options = ["-Xmx192m", "-XX:+UseSerialGC", "-Djava.awt.headless=true", *context.java_options.split()]
    # Where it would keep snapshots of its database.
    options += [f"-Djava.io.tmpdir={context.home.tmp}"]
    java, archive = context.registry / "java/bin/java", context.registry / "app/quarkus-run.jar"
    command = with_parent(java, *options, "-jar", archive)
    # After Kafka, whose log it needs.
    return Program(NAME, command, context.environment(), priority=30, directory=_folder(context))


def url(context: Context) -> str:
    return f"http://{context.network.address(NAME)}"


def probe(context: Context) -> str:
    """Raises httpx.HTTPError without a response, and until it has read its journal."""
    address = f"http://{HOST}:{context.ports[HEALTH]}/health/ready"
    httpx.get(address, timeout=3, trust_env=False).raise_for_status()
    return "ready"
