"""The ledger: the first writer wins, and both go on with its document."""

from __future__ import annotations

import time

import pytest

from sluice.core.errors import Missing, Refused, Unreachable
from sluice.ledger import keys as ledger
from sluice.ledger.documents import Ledger
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    seconds: list[float] = []
    monkeypatch.setattr(time, "sleep", seconds.append)
    return seconds


def make(client: MemoryS3) -> Ledger:
    return Ledger(client.as_client(), "s3://warehouse/ledger", "nyc_taxi")


def test_the_loser_of_a_race_gets_the_winners_document() -> None:
    client = MemoryS3()
    assert make(client).put("k.json", {"by": "first"}) == {"by": "first"}
    assert make(client).put("k.json", {"by": "second"}) == {"by": "first"}
    assert list(client.objects) == [("warehouse", "ledger/nyc_taxi/k.json")]


def test_a_put_that_another_was_ahead_of_but_that_is_not_visible_is_tried_again(slept: list[float]) -> None:
    client = MemoryS3()
    client.refuse_puts = ["ConditionalRequestConflict"] * 2
    assert make(client).put("k.json", {"by": "me"}) == {"by": "me"}
    assert len(slept) == 2
    assert slept == sorted(slept)
    client.refuse_puts = ["ConditionalRequestConflict"] * 99
    with raising(Unreachable, "s3://warehouse/ledger/nyc_taxi/other.json"):
        make(client).put("other.json", {})


def test_no_document_is_none_and_denial_is_an_error() -> None:
    client = MemoryS3()
    assert make(client).get("k.json") is None
    client.refuse_gets = ["AccessDenied"]
    with raising(Refused, "AccessDenied"):
        make(client).get("k.json")


def test_a_document_is_pinned_once_and_a_missing_one_names_its_task() -> None:
    ledger = make(MemoryS3())
    with raising(Missing, "s3://warehouse/ledger/nyc_taxi/k.json", "clear the produce task"):
        ledger.require("k.json", "produce")
    assert ledger.pin("k.json", lambda: {"by": "first"}) == {"by": "first"}
    assert ledger.pin("k.json", lambda: {"by": "second"}) == {"by": "first"}
    assert ledger.require("k.json", "produce") == {"by": "first"}


def test_run_ids_are_quoted() -> None:
    key = ledger.run_key("manual__2026-01-01T00:00:00+00:00/x", "plan")
    assert key == "runs/manual__2026-01-01T00%3A00%3A00%2B00%3A00%2Fx/plan.json"
