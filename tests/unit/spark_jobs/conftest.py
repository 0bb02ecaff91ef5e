"""What a job tells its log, without the words."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest


@pytest.fixture
def levels(caplog: pytest.LogCaptureFixture) -> Callable[..., list[str]]:
    """The levels of the lines so far that have all of the given data in them."""
    caplog.set_level(logging.INFO)

    def found(*data: object) -> list[str]:
        return [
            record.levelname
            for record in caplog.records
            if all(str(datum) in record.getMessage() for datum in data)
        ]

    return found
