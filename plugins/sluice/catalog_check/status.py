"""What a page says of the catalog: whether it keeps what a writer relies on, if that was tried. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.catalog_check.promises import CHANCES, RACES, STEPS, VERSION
from sluice.config.platform_sections.catalog import SQL
from sluice.core.messages import iso


@dataclass(frozen=True)
class Kept:
    """What was found of a catalog. ``version``: of the promises; ``at``: when they were tried, in seconds
    since 1970; ``broken``: the promise that the catalog breaks, empty if it keeps all; ``place``: address,
    warehouse and prefix by which it was tried, as another product may have its tables by now."""

    version: int
    at: float
    broken: str = ""
    place: str = ""


@dataclass(frozen=True)
class CatalogStatus:
    """``text``: one sentence, without an address; ``is_broken``: no consumer starts on it."""

    text: str
    is_broken: bool = False


def status(kind: str, found: Kept | None) -> CatalogStatus:
    """``kind``: the type in ``[lake.catalog]``; ``found``: of this version of the promises."""
    if kind == SQL:
        return CatalogStatus(
            "sql: Iceberg compares a table's whole metadata with each commit; nothing is to be tried"
        )
    if found is None:
        return CatalogStatus(
            f"{kind}: not tried yet (version {VERSION}). The next consumer that starts tries it, and so does "
            "sluice catalog-check"
        )
    when = f"tried {iso(found.at)} (version {found.version})"
    if found.broken:
        again = "each that starts tries it again"
        if found.broken in CHANCES:
            again = "only sluice catalog-check tries it again"
        return CatalogStatus(
            f"{kind}: breaks promise {found.broken}, {when}: no consumer starts on it; stop those that run "
            f"since before; {again}",
            is_broken=True,
        )
    return CatalogStatus(f"{kind}: keeps all {len(STEPS) + len(RACES)} promises, {when}")
