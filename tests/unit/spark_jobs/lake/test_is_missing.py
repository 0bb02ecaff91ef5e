"""Whether a table that Iceberg's Java client does not find is missing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyiceberg.exceptions import NoSuchTableError

from sluice.clients.catalogs.errors import NotFromCatalog
from sluice.config.platform_sections.catalog import REST
from sluice.core.errors import Unreachable
from spark_jobs.common.lake import expected_refs
from spark_jobs.common.lake.expected_refs import PREFIX, is_missing
from tests.support.raising import raising


def session(kind: str) -> Any:
    conf = {f"{PREFIX}type": kind}
    return SimpleNamespace(conf=SimpleNamespace(get=conf.get, getAll=conf))


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """What the catalog says: nothing for the table."""
    given: list[Exception] = []

    def load_table(_: str) -> None:
        for error in given:
            raise error

    monkeypatch.setattr(expected_refs, "catalog_of", lambda _: SimpleNamespace(load_table=load_table))
    return given


def test_a_rest_catalog_is_asked_once_more(answers: list[Exception]) -> None:
    assert not is_missing(session(REST), "raw.t"), "another process created it meanwhile"
    answers.append(NoSuchTableError("raw.t"))
    assert is_missing(session(REST), "raw.t")
    answers[:] = [NotFromCatalog("GET https://catalog.test: 404")]
    with raising(Unreachable, "table raw.t", "404"):
        is_missing(session(REST), "raw.t")


def test_other_catalogs_say_it_themselves(answers: list[Exception]) -> None:
    answers.append(AssertionError("not asked"))
    assert is_missing(session("jdbc"), "raw.t")
