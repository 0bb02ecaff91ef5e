"""Tests that run on each kind of catalog."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.config.platform_sections.catalog import GLUE, MYSQL, REST, SQL

# A REST catalog to which requests are signed.
SIGNED = "signed"
KINDS = (SQL, REST, GLUE, MYSQL, SIGNED)
# The name of that in a module: the names of its tests that run on REST in `make test` too. All others of it
# that have a `stream` run there on PostgreSQL alone, and in `make test-all` on each kind.
ON_REST = "ON_REST_CATALOG"


def parametrize(metafunc: pytest.Metafunc) -> None:
    """For `pytest_generate_tests`: the kinds for the fixture `stream` of such a module."""
    on_rest = getattr(metafunc.module, ON_REST, None)
    if on_rest is not None and "stream" in metafunc.fixturenames:
        usual = (SQL, REST) if metafunc.function.__name__ in on_rest else (SQL,)
        metafunc.parametrize("stream", _params(usual, KINDS), indirect=True)


def on_each_catalog(*usual: str, kinds: tuple[str, ...] = KINDS) -> pytest.MarkDecorator:
    """The ``kinds`` for the fixture `stream` of one test, or of a module's; ``usual``: those that are not
    exhaustive."""
    return pytest.mark.parametrize("stream", _params(usual, kinds), indirect=True)


def _params(usual: tuple[str, ...], kinds: tuple[str, ...]) -> list[Any]:
    return [pytest.param(one, marks=[] if one in usual else pytest.mark.exhaustive) for one in kinds]
