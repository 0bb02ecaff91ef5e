"""A REST catalog, and AWS Glue: a listing; and whether the login may commit, by a commit that cannot hold."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from uuid import UUID

from sluice.clients.catalogs.errors import DENIED_BY_AWS, asking
from sluice.clients.s3.errors import error_code
from sluice.config.platform_sections.catalog import GLUE
from sluice.connection_check.probing import tls as handshakes
from sluice.connection_check.probing.tls import Tls
from sluice.connection_check.probing.web import ask_address, clock_of, static_token
from sluice.connection_check.rights.tables import CATALOG_READERS, CATALOG_WRITERS
from sluice.connection_check.rows import Row, compared
from sluice.core.errors import Refused
from sluice.core.http_dates import http_date

if TYPE_CHECKING:
    from sluice.config.platform import Platform

# A table of Glue that no one has.
ABSENT = "sluice_check_absent"
# The id that no table has.
_NO_UUID = UUID(int=0)
_TABLE = "catalog_check"


def ask(platform: Platform, rows: list[Row]) -> None:
    """Fill the row. Raises ClientError."""
    from sluice.clients.catalogs.pointers import opened

    row, catalog = rows[0], platform.lake.catalog
    row.token = static_token(catalog.token)
    if not handshakes.look_at(row, catalog.address, Tls.declared(catalog)):
        return
    if catalog.oauth2_server_uri:
        endpoint = Row(row.role, "lake.catalog token endpoint", catalog.oauth2_server_uri, row.login)
        rows.append(endpoint)
        ask_address(catalog.oauth2_server_uri, Tls.declared(catalog), rows[-1:])
    is_needed = platform.role in (*CATALOG_READERS, *CATALOG_WRITERS)
    pointers: Any = None
    try:
        pointers = opened(platform.lake.pyiceberg(platform.s3))
        with asking("the lake's catalog"):
            if catalog.type == GLUE:
                _ask_glue(row, pointers.catalog.glue, catalog.check_namespace)
            else:
                clock_of(row, catalog.uri)
                _ask_rest(row, pointers.catalog, catalog.check_namespace)
    except Refused:
        if is_needed:
            raise
        row.remarks.append("the catalog does not let it in, and it needs nothing there")
    finally:
        if pointers is not None:
            pointers.close()


def _ask_rest(row: Row, catalog: Any, namespace: str) -> None:
    from pyiceberg.exceptions import (
        CommitFailedException,
        ForbiddenError,
        NoSuchNamespaceError,
        NoSuchTableError,
        UnauthorizedError,
    )
    from pyiceberg.table.update import AssertTableUUID

    catalog.list_namespaces()
    is_writer = row.role in CATALOG_WRITERS
    listing = ("list namespaces", row.role in (*CATALOG_READERS, *CATALOG_WRITERS), True)
    try:
        table = catalog.load_table(f"{namespace}.{_TABLE}")
    except (NoSuchTableError, NoSuchNamespaceError):
        row.rights = compared([listing])
        row.remarks.append(
            f"whether it may commit is not asked without table {namespace}.{_TABLE}: sluice catalog-check "
            "makes it"
        )
        return
    try:
        catalog.commit_table(table, (AssertTableUUID(uuid=_NO_UUID),), ())
        may_commit = True
    except CommitFailedException:
        may_commit = True
    except (ForbiddenError, UnauthorizedError):
        may_commit = False
    row.rights = compared([listing, ("commit to tables", is_writer, may_commit)])


def _ask_glue(row: Row, glue: Any, namespace: str) -> None:
    from botocore.exceptions import ClientError

    began = time.time()
    answer = glue.get_databases(MaxResults=1)
    if at := http_date(answer["ResponseMetadata"]["HTTPHeaders"].get("date", "")):
        row.clock = at.timestamp() - (began + time.time()) / 2
    try:
        glue.update_table(DatabaseName=namespace, TableInput={"Name": ABSENT})
        may_commit = True
    except ClientError as error:
        code = error_code(error)
        if code not in DENIED_BY_AWS and code != "EntityNotFoundException":
            raise
        may_commit = code not in DENIED_BY_AWS
    is_reader, is_writer = row.role in CATALOG_READERS, row.role in CATALOG_WRITERS
    row.rights = compared(
        [
            ("glue:GetDatabases", is_reader or is_writer, True),
            ("glue:UpdateTable", is_writer, may_commit),
        ]
    )
