"""`sluice catalog-check`: whether the catalog keeps what a writer relies on, tried on a scratch table."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict

from sluice.catalog_check.trial import findings
from sluice.cli.base import printable
from sluice.cli.installation import Installation, check_running
from sluice.cli.terminal import print_json
from sluice.clients.catalogs.errors import asking
from sluice.clients.lake.catalog import Lake


def check_catalog(installation: Installation, namespace: str, role: str, as_json: bool = False) -> int:
    """Print each promise, up to the first that is broken: then 1, else 0.

    ``namespace``: of the scratch table; made if it is missing. ``role``: whose login is used. Raises
    UsageError if the stack is down, and the errors of :func:`sluice.clients.catalogs.errors.asking`.
    """
    check_running(installation)
    platform = installation.systems(role).platform
    catalog = platform.lake.catalog
    found = []
    with closing(Lake.open(platform)) as one, closing(Lake.open(platform)) as other:
        with asking(f"namespace {namespace}"):
            one.catalog.create_namespace_if_not_exists(namespace)
        for finding in findings(one.catalog, other.catalog, f"{namespace}.catalog_check"):
            found.append(finding)
            if not as_json:
                print(f"{'kept' if finding.is_kept else 'BROKEN'}: {finding.promise}: {finding.text}")
    broken = [finding for finding in found if not finding.is_kept]
    where = f"{catalog.type} catalog {catalog.address}".strip()
    if as_json:
        promises = [asdict(finding) for finding in found]
        print_json({"catalog": where, "is_ok": not broken, "promises": promises})
    elif broken:
        (one_broken,) = broken
        print(printable(f"  expected: {one_broken.expected}"))
        print(printable(f"  found: {one_broken.found}"))
        print(f"{where} breaks promise {one_broken.promise}: a stream on it could lose or double rows")
    else:
        print(f"{where} keeps all {len(found)} promises")
    return 1 if broken else 0
