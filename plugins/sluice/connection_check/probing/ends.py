"""The ends of a role's platform file, in the order of its sections."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from sluice.clients.s3.requests import split_prefix
from sluice.config.platform_sections.catalog import GLUE, SQL
from sluice.config.platform_sections.signing import S3_TABLES
from sluice.config.reading.toml import secrets
from sluice.connection_check.needs import Needs
from sluice.connection_check.probing.tls import Tls
from sluice.connection_check.rights.kafka import is_operators
from sluice.connection_check.rights.s3 import Places, bucket_of, s3_grants
from sluice.connection_check.rows import CONNECTION, Row
from sluice.connection_check.run import End

if TYPE_CHECKING:
    from sluice.config.connection import Database
    from sluice.config.platform import Platform

# The role whose processes write results into databases.
RESULTS_ROLE = "consumer"


def ends_of(platform: Platform, needs: Needs) -> list[End]:
    """All but databases of results, which Airflow's connections name."""
    role = platform.role
    found = [_kafka(platform, needs), _s3(platform, needs), _catalog(platform)]
    if platform.registry is not None:
        found += _registry(platform, needs)
    found += [_feed(platform.role, *one) for one in platform.feeds.items()]
    if platform.supervisor is not None:
        from sluice.connection_check.probing.web import ask_supervisor

        row = Row(role, "supervisor", platform.supervisor.url, f"user {platform.supervisor.username}")
        found.append(End(row, partial(ask_supervisor, platform.supervisor)))
    if platform.observer is not None:
        from sluice.connection_check.probing.web import ask_observer

        row = Row(role, "observer", platform.observer.url, "bearer token")
        found.append(End(row, partial(ask_observer, platform.observer)))
    if platform.metrics is not None and platform.metrics.checks_url:
        from sluice.connection_check.probing.web import ask_checks

        row = Row(role, "metrics", platform.metrics.checks_url, "bearer token")
        found.append(End(row, partial(ask_checks, platform.metrics)))
    for end in ("kubernetes", "strimzi"):
        if getattr(platform, end) is not None:
            from sluice.connection_check.probing.kubernetes import ask as ask_kubernetes

            found.append(End(Row(role, end, "", ""), partial(ask_kubernetes, platform)))
    return found


def _kafka(platform: Platform, needs: Needs) -> End:
    from sluice.connection_check.probing.kafka import ask, login_of

    row = Row(platform.role, "kafka", platform.kafka.bootstrap_servers, login_of(platform.kafka))
    rules = [rule for rule in needs.rules if platform.strimzi is None or not is_operators(rule)]
    return End(row, lambda rows: ask(platform.kafka, platform.role, rules, rows))


def places(platform: Platform, prefixes: Sequence[str] = ()) -> Places:
    """Where the platform file says that objects are; ``prefixes``: of sinks ``files``."""
    lake, ledger = (
        "/".join(filter(None, split_prefix(one))) for one in (platform.lake.warehouse, platform.lake.ledger)
    )
    documents, root = platform.lake.documents, platform.checkpoints.root
    return Places(
        lake,
        ledger,
        platform.source.bucket,
        tuple(f"{bucket_of(lake)}/{prefix}" for prefix in prefixes),
        "/".join(filter(None, split_prefix(documents))) if documents else "",
        "/".join(filter(None, split_prefix(root))) if platform.checkpoints.in_bucket else "",
        # The catalog's own keys list it.
        is_listed=platform.lake.bucket_lists and not platform.lake.vends,
        in_catalog=platform.lake.vends or platform.lake.catalog.signing_name == S3_TABLES,
        is_deleted_from=not platform.lake.is_maintained_by_catalog,
    )


def _s3(platform: Platform, needs: Needs) -> End:
    from sluice.connection_check.probing.s3 import ask, login_of

    s3, found = platform.s3, places(platform, needs.prefixes)
    row = Row(platform.role, "s3", s3.endpoint or f"AWS {s3.region}", login_of(s3))
    if found.in_catalog:
        row.remarks.append("rights in the lake are the catalog's matter, and are not asked of S3")
    all_needed = needs.adds_columns or (platform.role == "consumer" and platform.registry is not None)
    granted = s3_grants(found)
    return End(row, lambda rows: ask(s3, found, granted, rows, all_needed=all_needed))


def _catalog(platform: Platform) -> End:
    catalog = platform.lake.catalog
    row = Row(platform.role, f"lake.catalog {catalog.type}", catalog.address, _catalog_login(platform))
    if catalog.type == SQL:
        from sluice.connection_check.probing.sql import ask_catalog

        return End(row, partial(ask_catalog, platform))
    from sluice.connection_check.probing.catalog import ask

    return End(row, partial(ask, platform))


def _catalog_login(platform: Platform) -> str:
    catalog = platform.lake.catalog
    if catalog.type == SQL:
        return f"user {catalog.username}"
    if catalog.type == GLUE or catalog.signing_name:
        from sluice.connection_check.probing.s3 import login_of

        signed = "" if catalog.type == GLUE else "SigV4, "
        return f"{signed}key {catalog.access_key}" if catalog.access_key else signed + login_of(platform.s3)
    if catalog.credential:
        return f"OAuth2 {catalog.credential.partition(':')[0]}"
    return "bearer token" if catalog.token else "none"


def _feed(role: str, stream: str, url: str) -> End:
    from sluice.connection_check.probing.web import ask_address

    return End(Row(role, f"feeds {stream}", url), partial(ask_address, url, Tls()))


def _registry(platform: Platform, needs: Needs) -> list[End]:
    from sluice.connection_check.probing.web import ask_registry, registry_login

    registry = platform.need_registry()
    registers = needs.registers and platform.role == "airflow"
    return [
        End(
            Row(platform.role, "registry", url, registry_login(registry)),
            partial(ask_registry, registry, url, registers=registers),
        )
        for url in registry.urls
    ]


def database_ends(tables: Mapping[str, Sequence[str]], open_database: Callable[[str], Database]) -> list[End]:
    """Databases of results, by the connections that queries name. ``open_database``: raises ClientError or
    ConfigError for one that cannot be read, which is that end's problem."""
    from sluice.connection_check.probing.sql import ask_results

    def ask(name: str, hidden: list[str], rows: list[Row]) -> None:
        database = open_database(name)
        hidden += secrets(database)
        rows[0].address = f"{database.host}:{database.port}/{database.database}"
        rows[0].login = f"user {database.username}"
        ask_results(database, tables[name], rows)

    found = []
    for name in tables:
        hidden: list[str] = []
        row = Row(RESULTS_ROLE, f"{CONNECTION} {name}", "", "")
        found.append(End(row, partial(ask, name, hidden), hidden))
    return found
