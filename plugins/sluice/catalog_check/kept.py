"""What was found of a catalog, kept in the catalog itself: a property of a table beside the scratch tables.

So every role that reads the catalog knows it, and a catalog that is restored has what was found of it then.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchNamespaceError, NoSuchTableError

from sluice.catalog_check.promises import RACES, STEPS, VERSION
from sluice.catalog_check.trial import SCHEMA, Finding, findings
from sluice.clients.catalogs.errors import asking
from sluice.config.reading.toml import ConfigError
from sluice.core.error_codes import ErrorCode

PROPERTY = "sluice.catalog-check"
TABLE = "catalog_check"


class CatalogBroken(ConfigError):
    """The catalog breaks a promise: a stream on it could lose or double rows."""

    code = ErrorCode.CATALOG_BROKEN


@dataclass(frozen=True)
class Kept:
    """That a catalog kept all promises of this version. ``at``: when it was tried, in seconds since 1970."""

    version: int
    at: float


def read(catalog: Catalog, namespace: str) -> Kept | None:
    """None unless this catalog was found to keep what this version asks for. Raises the errors of
    :func:`sluice.clients.catalogs.errors.asking`."""
    with asking(f"table {namespace}.{TABLE}"):
        try:
            text = catalog.load_table(f"{namespace}.{TABLE}").properties.get(PROPERTY)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
    try:
        found = Kept(**json.loads(text)) if text else None
    except (TypeError, ValueError):
        # Written by another hand, or another version: it is tried again.
        return None
    return found if found and found.version == VERSION else None


def tried(catalog: Catalog, other: Catalog, namespace: str) -> list[Finding]:
    """Try each promise, up to the first that is broken; keep it if none is. Makes the namespace if it is
    missing. Raises as :func:`read`."""
    with asking(f"namespace {namespace}"):
        catalog.create_namespace_if_not_exists(namespace)
    found = list(findings(catalog, other, f"{namespace}.{TABLE}"))
    if len(found) == len(STEPS) + len(RACES) and all(one.is_kept for one in found):
        _keep(catalog, namespace, Kept(VERSION, time.time()))
    return found


def _keep(catalog: Catalog, namespace: str, kept: Kept) -> None:
    with asking(f"table {namespace}.{TABLE}"):
        table = catalog.create_table_if_not_exists(f"{namespace}.{TABLE}", SCHEMA)
        try:
            with table.transaction() as change:
                change.set_properties({PROPERTY: json.dumps(asdict(kept))})
        except CommitFailedException:
            # Another process has found the same meanwhile.
            return


def check(catalog: Catalog, other: Catalog, namespace: str, address: str) -> None:
    """Raise CatalogBroken unless the catalog was found to keep all promises, now or before; ``address``: for
    the message. Raises as :func:`read`."""
    if read(catalog, namespace):
        return
    for finding in tried(catalog, other, namespace):
        if not finding.is_kept:
            raise broken(finding, address)


def broken(finding: Finding, address: str) -> CatalogBroken:
    """The error for a broken promise."""
    message = (
        f"catalog {address} breaks promise {finding.promise} ({finding.text}): expected {finding.expected}; "
        f"found {finding.found}. Fix: use another catalog, or a version of it that keeps the promise; "
        "`sluice catalog-check` tries it"
    )
    return CatalogBroken(message)
