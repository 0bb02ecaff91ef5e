"""`sluice catalog-check`: whether the catalog keeps what a writer relies on, tried on a scratch table."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict

from sluice.catalog_check.kept import tried
from sluice.cli.base import printable
from sluice.cli.installation import Installation, check_running
from sluice.cli.terminal import print_json
from sluice.clients.lake.catalog import Lake


def check_catalog(installation: Installation, role: str, as_json: bool = False) -> int:
    """Print each promise, up to the first that is broken: then 1, else 0, which the catalog keeps.

    ``role``: whose login is used. Raises UsageError if the stack is down, and the errors of
    :func:`sluice.clients.catalogs.errors.asking`.
    """
    check_running(installation)
    platform = installation.systems(role).platform
    catalog = platform.lake.catalog
    with closing(Lake.open(platform)) as one, closing(Lake.open(platform)) as other:
        found = tried(one.catalog, other.catalog, catalog.check_namespace)
    if not as_json:
        for finding in found:
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
