"""Tests of a stream on each kind of catalog: on a database in the usual run, on the others exhaustively."""

from __future__ import annotations

import pytest

from sluice.config.platform_sections.catalog import GLUE, REST, SQL

CATALOGS = (SQL, REST, GLUE)


def every_catalog(*usual: str) -> pytest.MarkDecorator:
    """For the fixture `stream`; ``usual``: the kinds that are not exhaustive."""
    params = [pytest.param(one, marks=[] if one in usual else pytest.mark.exhaustive) for one in CATALOGS]
    return pytest.mark.parametrize("stream", params, indirect=True)


EVERY_CATALOG = every_catalog(SQL)
