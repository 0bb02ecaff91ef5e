"""Errors of the catalog's libraries as Sluice's."""

from __future__ import annotations

from sqlalchemy.exc import TimeoutError as PoolTimeout

from sluice.clients.catalogs.errors import asking
from sluice.core.errors import Unreachable
from tests.support.raising import raising


def test_a_catalog_whose_connections_all_hang_is_unreachable() -> None:
    with raising(Unreachable, "table x", "catalog"), asking("table x"):
        raise PoolTimeout("QueuePool limit of size 5 overflow 10 reached")
