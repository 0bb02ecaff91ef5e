"""Iceberg's REST catalog before the catalog in PostgreSQL, for stacks that choose it: with the same tables.

Its logins are tokens, one per role, with the rights that the roles have in PostgreSQL.
"""

from __future__ import annotations

from pathlib import Path

import httpx

from local.base import UsageError
from local.runtime.context import Context, with_parent
from local.runtime.home import java_properties, write_files
from local.runtime.roles import CATALOG_USER, WAREHOUSE, catalog_tokens
from local.runtime.supervisord import Program
from local.services import minio, postgres
from sluice.config.platform_sections.catalog import ANSWER_SECONDS, REST, SQL, STATEMENT_SECONDS
from sluice.config.platform_sections.lake import CATALOG
from sluice.config.postgresql import jdbc_timeouts

NAME = "rest-catalog"
# In local.runtime.ports.
PORT = "rest_catalog"
# How roles find the lake's tables: `sql`, in PostgreSQL, or `rest`, through this server.
VARIABLE = "SLUICE_CATALOG"
# Compiled by Janino at each start, in half a second.
SERVER = Path(__file__).parent / "rest_server"
# Requests at a time, and connections to PostgreSQL.
THREADS, CONNECTIONS = 16, 8


def chosen(requested: str | None, stored: str | None) -> str:
    """The requested kind of catalog, else the stored one. Raises UsageError for an unknown one."""
    kind = requested or stored or SQL
    if kind not in (SQL, REST):
        raise UsageError(f"{VARIABLE} is {kind!r}. Fix: give {SQL} or {REST}")
    return kind


def _settings_file(context: Context) -> Path:
    return context.home.conf / NAME / "server.properties"


def _catalog(context: Context) -> dict[str, str]:
    """Iceberg's properties of the catalog behind it: as Spark's with a catalog in PostgreSQL."""
    jdbc = {
        "user": postgres.CATALOG,
        "password": context.secrets[postgres.CATALOG],
        "sslmode": "disable",
        **jdbc_timeouts(STATEMENT_SECONDS, ANSWER_SECONDS),
        "schema-version": "V1",
    }
    return {
        "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        "uri": f"jdbc:postgresql://{context.network.address('postgres')}/lake",
        "clients": str(CONNECTIONS),
        **{f"jdbc.{key}": value for key, value in jdbc.items()},
        "warehouse": f"s3://{WAREHOUSE}/lake",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        # As in Spark: role maintenance deletes, late.
        "s3.delete-enabled": "false",
        "client.region": "us-east-1",
        "s3.endpoint": minio.url(context),
        "s3.access-key-id": CATALOG_USER,
        "s3.secret-access-key": context.secrets["minio_catalog"],
        "s3.path-style-access": "true",
    }


def settings(context: Context) -> str:
    """What the server reads, passwords and tokens included: only for a file of mode 600."""
    given = {
        "host": context.network.bind,
        "port": str(context.ports[PORT]),
        "threads": str(THREADS),
        "name": CATALOG,
        **{f"catalog.{key}": value for key, value in _catalog(context).items()},
    }
    for right, tokens in catalog_tokens(context.secrets).items():
        given |= {f"{right}.{role}": token for role, token in tokens.items()}
    return java_properties(given)


def files(context: Context) -> dict[Path, str]:
    """Its configuration."""
    return {_settings_file(context): settings(context)}


def prepare(context: Context) -> None:
    """Write its configuration."""
    write_files(files(context))


def program(context: Context) -> Program:
    """Raises UsageError if the stack has none."""
    if context.rest_catalog is None:
        raise UsageError(f"the stack has no REST catalog. Fix: local/run up --catalog {REST}")
    options = ["-Xmx192m", "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true"]
    options += [f"-Djava.io.tmpdir={context.home.tmp}", *context.java_options.split()]
    log = {"showDateTime": "true", "dateTimeFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSX", "showThreadName": "false"}
    options += [f"-Dorg.slf4j.simpleLogger.{key}={value}" for key, value in log.items()]
    # start.xml has no address of a schema to be checked by.
    options += ["-Dorg.eclipse.jetty.xml.XmlParser.Validating=false"]
    options += [f"-Dsluice.source={SERVER / 'CatalogServer.java'}"]
    options += [f"-Dsluice.settings={_settings_file(context)}"]
    main = ("org.eclipse.jetty.xml.XmlConfiguration", str(SERVER / "start.xml"))
    command = with_parent(context.java, *options, "-cp", f"{context.rest_catalog}/*", *main)
    # After PostgreSQL, which has its tables.
    return Program(NAME, command, context.environment(), priority=30, directory=context.home.root)


def url(context: Context) -> str:
    return f"http://{context.network.address(PORT)}"


def probe(context: Context) -> str:
    """Read the namespaces, which are in PostgreSQL. Raises httpx.HTTPError if it cannot."""
    token = context.secrets["catalog_airflow"]
    answer = httpx.get(
        f"{url(context)}/v1/namespaces",
        headers={"Authorization": f"Bearer {token}"},
        timeout=5,
        trust_env=False,
    )
    answer.raise_for_status()
    return "ready"
