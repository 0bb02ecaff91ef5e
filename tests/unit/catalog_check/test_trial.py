"""A catalog that keeps all promises, and twelve that break one each: all are told apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.catalog_check.promises import RACES, STEPS
from sluice.catalog_check.trial import findings
from tests.unit.catalog_check.broken_catalogs import BROKEN, opened

ORDER = [*(step.promise for step in STEPS), *(race.promise for race in RACES)]
# One of each kind: a commit that must be made, one that must be refused, and one of two at once.
ALWAYS = ("append-to-branch", "untouched-ref", "branch-removed-meanwhile")


def test_a_catalog_that_keeps_them_all_is_found_to(tmp_path: Path) -> None:
    catalog, other = opened(tmp_path), opened(tmp_path)
    catalog.create_namespace("scratch")
    found = list(findings(catalog, other, "scratch.trial", rounds=2))
    assert [one.promise for one in found] == ORDER
    assert [one for one in found if not one.is_kept] == []
    assert catalog.list_tables("scratch") == [], "the scratch tables are dropped"


@pytest.mark.parametrize(
    "promise",
    [pytest.param(promise, marks=() if promise in ALWAYS else pytest.mark.exhaustive) for promise in BROKEN],
)
def test_a_catalog_that_breaks_one_is_named_by_it(promise: str, tmp_path: Path) -> None:
    kind = BROKEN[promise]
    catalog, other = opened(tmp_path, kind), opened(tmp_path, kind)  # type: ignore[arg-type]
    catalog.create_namespace("scratch")
    *kept, broken = findings(catalog, other, "scratch.trial", rounds=3)
    assert (broken.promise, broken.is_kept) == (promise, False), broken.found
    assert [one.promise for one in kept] == ORDER[: ORDER.index(promise)]
    assert broken.found != broken.expected
    assert catalog.list_tables("scratch") == []


def test_there_is_a_broken_catalog_of_each_promise() -> None:
    assert list(BROKEN) == ORDER
