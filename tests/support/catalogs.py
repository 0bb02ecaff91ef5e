"""Tests that run on each kind of catalog."""

from __future__ import annotations

import pytest

from sluice.config.platform_sections.catalog import MYSQL, REST, SQL

# In `make test` only the first, but for what a module names.
KINDS = (SQL, REST, MYSQL)
# The name of that in a module: the names of its tests that run on each kind always. All others of it that
# have a `stream` do in `make test-all`.
ALWAYS = "ON_EACH_CATALOG"
# Only in `make test-all`: a database as SQL is.
EXHAUSTIVE = {MYSQL}


def parametrize(metafunc: pytest.Metafunc) -> None:
    """For `pytest_generate_tests`: the kinds for the fixture `stream` of such a module."""
    always = getattr(metafunc.module, ALWAYS, None)
    if always is None or "stream" not in metafunc.fixturenames:
        return
    is_always = metafunc.function.__name__ in always
    # A module may have fewer.
    first, *others = getattr(metafunc.module, "KINDS", KINDS)
    params = [
        pytest.param(kind, marks=[] if is_always and kind not in EXHAUSTIVE else [pytest.mark.exhaustive])
        for kind in others
    ]
    metafunc.parametrize("stream", [first, *params], indirect=True)
