"""A catalog that keeps all promises is found to. Those that break one are in ``tests/services/catalog``."""

from __future__ import annotations

from pathlib import Path

from sluice.catalog_check.promises import RACES, STEPS
from sluice.catalog_check.trial import findings
from tests.unit.catalog_check.sqlite import opened


def test_a_catalog_that_keeps_them_all_is_found_to(tmp_path: Path) -> None:
    catalog, other = opened(tmp_path), opened(tmp_path)
    catalog.create_namespace("scratch")
    found = list(findings(catalog, other, "scratch.trial", rounds=2))
    assert [one.promise for one in found] == [one.promise for one in (*STEPS, *RACES)]
    assert [one for one in found if not one.is_kept] == []
    assert catalog.list_tables("scratch") == [], "the scratch tables are dropped"
