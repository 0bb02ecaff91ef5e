"""A REST catalog, and AWS Glue: whether the login may read, and commit, by a commit that cannot hold."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from sluice.clients.catalogs.errors import asking
from sluice.clients.s3.errors import error_code
from sluice.config.platform import file_of
from sluice.config.platform_sections.catalog import GLUE
from sluice.connection_check.probing import tls as handshakes
from sluice.connection_check.probing.tls import Tls
from sluice.connection_check.probing.web import ask_address, clock_of, note_token
from sluice.connection_check.rights.tables import (
    CATALOG_READERS,
    CATALOG_WRITERS,
    GLUE_TRIAL,
    glue_actions,
)
from sluice.connection_check.rows import PENDING, Row, compared
from sluice.core.errors import Refused
from sluice.core.http_dates import http_date

if TYPE_CHECKING:
    from sluice.config.platform import Platform

# The login is known; one that is not, or no longer, is another failure.
_NO_RIGHT = ("AccessDeniedException", "AccessDenied")
# A table of Glue that no one has.
ABSENT = "sluice_check_absent"
# The id that no table has.
_NO_UUID = UUID(int=0)
_TABLE = "catalog_check"


def ask(platform: Platform, rows: list[Row]) -> None:
    """Fill the row. Raises ClientError."""
    from sluice.clients.catalogs.pointers import opened

    row, catalog = rows[0], platform.lake.catalog
    note_token(row, catalog.token, file_of(row.role, "lake", "catalog", "token"))
    if not handshakes.look_at(row, catalog.address, Tls.declared(catalog)):
        return
    if catalog.oauth2_server_uri:
        where = "lake.catalog token endpoint"
        rows.append(Row(row.role, where, catalog.oauth2_server_uri, row.login, not_looked_at=PENDING))
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

    # Not a listing of namespaces: no role needs it.
    is_writer = row.role in CATALOG_WRITERS
    is_needed = is_writer or row.role in CATALOG_READERS
    try:
        table = catalog.load_table(f"{namespace}.{_TABLE}")
    except (NoSuchTableError, NoSuchNamespaceError):
        row.remarks.append(
            f"rights are not asked without table {namespace}.{_TABLE}: sluice catalog-check makes it"
        )
        return
    except ForbiddenError:
        row.rights = compared([(f"read tables in namespace {namespace}", is_needed, False)])
        return
    reading = ("read tables", is_needed, True)
    try:
        catalog.commit_table(table, (AssertTableUUID(uuid=_NO_UUID),), ())
        may_commit = True
    except CommitFailedException:
        may_commit = True
    except (ForbiddenError, UnauthorizedError):
        may_commit = False
    row.rights = compared([reading, ("commit to tables", is_writer, may_commit)])


def _ask_glue(row: Row, glue: Any, namespace: str) -> None:
    """Each right by a request for a table that does not exist: IAM refuses before Glue looks for it."""
    absent = {"DatabaseName": namespace}
    requests = {
        "glue:GetTable": lambda: glue.get_table(**absent, Name=ABSENT),
        "glue:UpdateTable": lambda: glue.update_table(**absent, TableInput={"Name": ABSENT}),
        GLUE_TRIAL: lambda: glue.delete_table(**absent, Name=ABSENT),
    }
    needed = glue_actions(row.role, in_check_namespace=True)
    row.rights = compared(
        [
            (f"{action} in {namespace}", action in needed, _may(row, request))
            for action, request in requests.items()
        ]
    )


def _may(row: Row, request: Callable[[], Any]) -> bool:
    from botocore.exceptions import ClientError

    began = time.time()
    try:
        answer = request()
    except ClientError as error:
        answer, code = error.response, error_code(error)
        if code not in (*_NO_RIGHT, "EntityNotFoundException"):
            raise
    else:
        code = ""
    if at := http_date(answer["ResponseMetadata"]["HTTPHeaders"].get("date", "")):
        row.clock = at.timestamp() - (began + time.time()) / 2
    return code not in _NO_RIGHT
