"""What was found of a catalog, kept in the catalog itself: a property of a table beside the scratch tables.

So every role that reads the catalog knows it, and a catalog that is restored has what was found of it then.
"""

from __future__ import annotations

import json
import logging
import time
from dataclasses import asdict

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    ValidationException,
)

from sluice.catalog_check.promises import CHANCES, RACES, STEPS, VERSION
from sluice.catalog_check.status import Kept
from sluice.catalog_check.trial import SCHEMA, Finding, findings
from sluice.clients.catalogs.errors import asking
from sluice.config.platform_sections.catalog import ADDRESS
from sluice.config.reading.toml import ConfigError
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import ClientError
from sluice.core.messages import iso

log = logging.getLogger(__name__)
PROPERTY = "sluice.catalog-check"
TABLE = "catalog_check"
# To write down a broken promise, beside other processes.
ATTEMPTS = 3


class CatalogBroken(ConfigError):
    """The catalog breaks a promise: a stream on it could lose or double rows."""

    code = ErrorCode.CATALOG_BROKEN


def read(catalog: Catalog, namespace: str) -> Kept | None:
    """None unless this catalog, at this address, was found to keep what this version asks for. Raises as
    :func:`found`."""
    known = found(catalog, namespace)
    return known if known and not known.broken else None


def _place(catalog: Catalog) -> str:
    # Not `uri`, which has a database's login.
    names = ADDRESS, "warehouse", "prefix"
    return " ".join(text for name in names if (text := catalog.properties.get(name)))


def found(catalog: Catalog, namespace: str) -> Kept | None:
    """What was found of this catalog at last; None if this version was not tried, or at another address: the
    property comes with its table. Raises the errors of :func:`sluice.clients.catalogs.errors.asking`."""
    with asking(f"table {namespace}.{TABLE}"):
        try:
            text = catalog.load_table(f"{namespace}.{TABLE}").properties.get(PROPERTY)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
    try:
        known = Kept(**json.loads(text)) if text else None
    except (TypeError, ValueError):
        # Written by another hand, or another version: it is tried again.
        return None
    is_of_this = known and (known.version, known.place) == (VERSION, _place(catalog))
    return known if is_of_this else None


def tried(catalog: Catalog, other: Catalog, namespace: str) -> list[Finding]:
    """Try each promise, up to the first that is broken, and keep what was found. Makes the namespace if it is
    missing. Raises as :func:`found`."""
    with asking(f"namespace {namespace}"):
        catalog.create_namespace_if_not_exists(namespace)
    made = list(findings(catalog, other, f"{namespace}.{TABLE}"))
    broken = [one.promise for one in made if not one.is_kept]
    if broken:
        _keep_broken(catalog, namespace, broken[0])
    elif len(made) == len(STEPS) + len(RACES):
        is_written = _keep(catalog, namespace, Kept(VERSION, time.time(), place=_place(catalog)))
        log.info("catalog tried, keeps all promises is_written=%s", is_written)
    return made


def _keep_broken(catalog: Catalog, namespace: str, promise: str) -> None:
    """For pages, and for later starts; a catalog that does not take it is refused all the same."""
    kept, why = Kept(VERSION, time.time(), promise, _place(catalog)), "other commits came first"
    for _ in range(ATTEMPTS):
        try:
            if _keep(catalog, namespace, kept):
                return
        except (ClientError, ValidationException, ValueError) as error:
            why = str(error)
            break
    log.warning("broken promise not written to the catalog promise=%s error=%s", promise, why)


def _keep(catalog: Catalog, namespace: str, kept: Kept) -> bool:
    """False if another process wrote meanwhile what it found."""
    with asking(f"table {namespace}.{TABLE}"):
        table = catalog.create_table_if_not_exists(f"{namespace}.{TABLE}", SCHEMA)
        try:
            with table.transaction() as change:
                change.set_properties({PROPERTY: json.dumps(_document(kept))})
        except CommitFailedException:
            return False
    return True


def _document(kept: Kept) -> dict[str, object]:
    # An earlier release reads no other fields of a catalog that it may trust.
    return {key: value for key, value in asdict(kept).items() if key != "broken" or value}


def check(catalog: Catalog, other: Catalog, namespace: str, address: str) -> None:
    """Raise CatalogBroken unless the catalog was found to keep all promises, now or before; ``address``: for
    the message. One that broke a promise before is tried again: it may be another version. Not if it lost a
    race: another one may go well by chance. Raises as :func:`found`."""
    known = found(catalog, namespace)
    if known and not known.broken:
        return
    if known and known.broken in CHANCES:
        raise CatalogBroken(
            f"catalog {address} breaks promise {known.broken}, as was tried {iso(known.at)}: of two commits "
            "at once each made the other invalid, and it took both, which is a matter of chance. Fix: use "
            "another catalog, or a version of it that keeps the promise, and then try it with `sluice "
            "catalog-check`, which writes down what it finds"
        )
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
