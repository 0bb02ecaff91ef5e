"""The ledger: the first writer wins, and both go on with its document."""

from __future__ import annotations

import pytest

from sluice.clients import keys, ledger
from sluice.clients.errors import Refused, Unreachable
from sluice.clients.ledger import Ledger
from tests.support.memory_s3 import MemoryS3, error


def make(client: MemoryS3) -> Ledger:
    return Ledger(client, "s3://warehouse/ledger", "nyc_taxi")  # type: ignore[arg-type]


def test_the_loser_of_a_race_gets_the_winners_document() -> None:
    client = MemoryS3()
    assert make(client).put("k.json", {"by": "first"}) == {"by": "first"}
    assert make(client).put("k.json", {"by": "second"}) == {"by": "first"}
    assert list(client.objects) == [("warehouse", "ledger/nyc_taxi/k.json")]


def test_a_put_that_another_was_ahead_of_but_that_is_not_visible_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ledger.time, "sleep", lambda _: None)
    client = MemoryS3()
    client.refuse_puts = ["ConditionalRequestConflict"] * 2
    assert make(client).put("k.json", {"by": "me"}) == {"by": "me"}
    client.refuse_puts = ["ConditionalRequestConflict"] * 99
    with pytest.raises(Unreachable, match=r"s3://warehouse/ledger/nyc_taxi/other\.json"):
        make(client).put("other.json", {})


def test_no_document_is_none_and_denial_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    client = MemoryS3()
    assert make(client).get("k.json") is None

    def deny(**_: object) -> None:
        raise error("AccessDenied", "GetObject")

    monkeypatch.setattr(client, "get_object", deny)
    with pytest.raises(Refused, match="AccessDenied"):
        make(client).get("k.json")


def test_run_ids_are_quoted() -> None:
    key = keys.run_key("manual__2026-01-01T00:00:00+00:00/x", "plan")
    assert key == "runs/manual__2026-01-01T00%3A00%3A00%2B00%3A00%2Fx/plan.json"
