"""A check whose report cannot be sent; real reports are in tests/services/runtime/test_checks.py."""

from __future__ import annotations

import pytest

from sluice.core.errors import Refused
from sluice.supervision.checks import report as checks
from sluice.supervision.checks.check import Check
from tests.support.raising import raising

CHECK, TOKEN = Check("nyc_taxi", "consumer", 1.0, 480.0), "t" * 24


@pytest.mark.parametrize(
    ("url", "token"),
    [
        ("http://h:abc", TOKEN),
        ("http://h:99999", TOKEN),
        ("http://127.0.0.1:1/\xe4", TOKEN),
        ("http://127.0.0.1:1", f"{TOKEN}\n"),
        ("http://127.0.0.1:1", "\u0142" * 24),
    ],
)
def test_what_no_request_can_have_ends_no_check(url: str, token: str) -> None:
    with raising(Refused, url, "[metrics]") as caught:
        checks.report(url, token, CHECK)
    assert token[:12] not in str(caught.value)
