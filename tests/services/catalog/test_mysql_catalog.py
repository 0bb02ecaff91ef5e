"""A catalog's database in MariaDB, by PyIceberg: what a writer relies on, and who may do what."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import TableAlreadyExistsError

from sluice.catalog_check.promises import RACES, STEPS
from sluice.catalog_check.trial import SCHEMA, findings
from sluice.clients.catalogs.errors import asking
from sluice.clients.lake.catalog import Lake
from sluice.config.platform import Platform
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Refused, Unreachable
from tests.support.raising import raising
from tests.support.services import Services


def declared(services: Services, **changed: Any) -> Platform:
    found = services.on_mysql("consumer")
    return replace(found, lake=replace(found.lake, catalog=replace(found.lake.catalog, **changed)))


def test_it_keeps_what_a_writer_relies_on_by_the_rights_of_its_roles(services: Services) -> None:
    services.minio  # noqa: B018
    consumer = services.on_mysql("consumer")
    with closing(Lake.open(consumer)) as one, closing(Lake.open(consumer)) as other:
        with raising(Missing, "no tables yet"), asking("table raw.t"):
            one.catalog.load_table("raw.t")
        assert isinstance(one.catalog, SqlCatalog)
        one.catalog.create_tables()
        one.catalog.create_namespace("scratch")
        found = list(findings(one.catalog, other.catalog, "scratch.trial", rounds=3))
        assert [finding for finding in found if not finding.is_kept] == []
        assert len(found) == len(STEPS) + len(RACES)
        # By the collation that the docs name.
        for name in ("acme", "Acme"):
            one.catalog.create_table(f"scratch.{name}", SCHEMA)
        with pytest.raises(TableAlreadyExistsError):
            other.catalog.create_table("scratch.acme", SCHEMA)
    with closing(Lake.open(services.on_mysql("reader"))) as reader:
        assert reader.location("scratch.acme")
        with raising(Refused, "DELETE command denied", "Fix: ") as refused, asking("table scratch.acme"):
            reader.catalog.drop_table("scratch.acme")
        assert refused.value.code is ErrorCode.CATALOG_PERMISSION


def test_what_fails_is_one_sentence_with_its_code(services: Services) -> None:
    for changed, kind, code, words in (
        ({"password": "other"}, Refused, ErrorCode.CATALOG_LOGIN, "Access denied for user"),
        ({"uri": "mysql://127.0.0.1:1/lake"}, Unreachable, ErrorCode.CATALOG_UNREACHABLE, "refused"),
        ({"sslmode": "require"}, Refused, ErrorCode.CATALOG_LOGIN, "got no login"),
    ):
        with closing(Lake.open(declared(services, **changed))) as lake:
            with raising(kind, "table raw.t", words) as raised:
                lake.location("raw.t")
            assert raised.value.code is code
