"""Tests that run on each kind of catalog."""

from __future__ import annotations

import pytest

from sluice.config.platform_sections.catalog import GLUE, REST, SQL

# In `make test` only the first, but for what a module names.
KINDS = (SQL, REST, GLUE)
# The name of that in a module: the names of its tests that run on each kind always. All others of it that
# have a `stream` do in `make test-all`.
ALWAYS = "ON_EACH_CATALOG"


def parametrize(metafunc: pytest.Metafunc) -> None:
    """For `pytest_generate_tests`: the kinds for the fixture `stream` of such a module."""
    always = getattr(metafunc.module, ALWAYS, None)
    if always is None or "stream" not in metafunc.fixturenames:
        return
    name = metafunc.function.__name__
    marks = [] if name in always else [pytest.mark.exhaustive]
    others = [pytest.param(kind, marks=marks) for kind in KINDS[1:]]
    metafunc.parametrize("stream", [KINDS[0], *others], indirect=True)
