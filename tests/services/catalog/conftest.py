"""The services that a REST catalog needs, each started once for all modules."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.services import Services


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    made = Services(tmp_path_factory.mktemp("rest-catalog"))
    yield made
    made.stop()
