"""Readers of data files as they are: each opens a database of its own."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _kept_databases() -> None:
    """None are kept."""
