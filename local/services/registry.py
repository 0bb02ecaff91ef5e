"""Apicurio: a schema registry with Confluent's API, its schemas in PostgreSQL; where a stream needs one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import httpx

from local.base import UsageError
from local.runtime.context import Context, with_parent
from local.runtime.home import java_properties, write_files
from local.runtime.ports import HOST
from local.runtime.registry_access import registry_logins
from local.runtime.supervisord import Program
from local.services import postgres

NAME = "registry"
# The port of the management interface, which has no login, and stays on loopback.
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


def _folder(context: Context) -> Path:
    # Quarkus reads config/application.properties of its working directory: a path among its options would be
    # read as a URI.
    return context.home.conf / NAME


def properties(context: Context) -> str:
    """Its configuration, passwords included: only for a file of mode 600."""
    settings = {
        "quarkus.http.host": context.network.bind,
        "quarkus.http.port": str(context.ports[NAME]),
        "quarkus.management.host": HOST,
        "quarkus.management.port": str(context.ports[HEALTH]),
        "quarkus.http.access-log.enabled": "false",
        "quarkus.banner.enabled": "false",
        "quarkus.log.console.format": "%d{yyyy-MM-dd'T'HH:mm:ss.SSSX}{UTC} %p %c{1}: %m%n%e",
        # Not `kafkasql`, which serves before it has read its journal again: a schema that it has is not found
        # then, and a record that names it would be rejected.
        "apicurio.storage.kind": "sql",
        "apicurio.storage.sql.kind": "postgresql",
        "apicurio.datasource.url": f"jdbc:postgresql://{context.network.address('postgres')}/{postgres.REGISTRY}"
        "?sslmode=disable",
        "apicurio.datasource.username": postgres.REGISTRY,
        "apicurio.datasource.password": context.secrets["postgres_registry"],
        # The default keeps 20 connections open.
        "apicurio.datasource.jdbc.initial-size": "1",
        "apicurio.datasource.jdbc.min-size": "1",
        "apicurio.datasource.jdbc.max-size": "10",
        # Confluent's default; Apicurio's is NONE. A subject may have another.
        "apicurio.rules.global.compatibility": "BACKWARD",
        # It says at each start that this is decided when it is built; what reads it decides at the start.
        "quarkus.http.auth.basic": "true",
        "apicurio.auth.role-based-authorization": "true",
        "quarkus.security.users.embedded.plain-text": "true",
    }
    for user, (password, right) in registry_logins(context.secrets).items():
        settings[f"quarkus.security.users.embedded.users.{user}"] = password
        settings[f"quarkus.security.users.embedded.roles.{user}"] = right
    return java_properties(settings)


def files(context: Context) -> dict[Path, str]:
    """Its configuration."""
    return {_folder(context) / "config" / "application.properties": properties(context)}


def prepare(context: Context) -> None:
    """Write its configuration."""
    write_files(files(context))


def program(context: Context) -> Program:
    """Raises UsageError if the stack has none."""
    if context.registry is None:
        raise UsageError(f"the stack has no registry. Fix: set {VARIABLE}={ALWAYS}")
    options = ["-Xmx192m", "-XX:+UseSerialGC", "-Djava.awt.headless=true", *context.java_options.split()]
    # Where it unpacks what is imported.
    options += [f"-Djava.io.tmpdir={context.home.tmp}"]
    java, archive = context.registry / "java/bin/java", context.registry / "app/quarkus-run.jar"
    command = with_parent(java, *options, "-jar", archive)
    # After PostgreSQL, which has its schemas.
    return Program(NAME, command, context.environment(), priority=30, directory=_folder(context))


def url(context: Context) -> str:
    return f"http://{context.network.address(NAME)}"


def probe(context: Context) -> str:
    """Raises httpx.HTTPError without a response, and if it does not reach its database."""
    address = f"http://{HOST}:{context.ports[HEALTH]}/health/ready"
    httpx.get(address, timeout=3, trust_env=False).raise_for_status()
    return "ready"
