"""Unit tests reach no network: a test that tries fails at once, naming the address.

Generated examples are few, the same in every run, and may take their time on a busy machine;
``--hypothesis-profile=thorough`` tries many, others each time.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings
from pytest_socket import disable_socket, enable_socket

settings.register_profile("quick", deadline=None, max_examples=25, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=500)


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--hypothesis-profile", None):
        settings.load_profile("quick")


@pytest.fixture(autouse=True)
def _no_network() -> Iterator[None]:
    disable_socket(allow_unix_socket=True)
    yield
    enable_socket()
