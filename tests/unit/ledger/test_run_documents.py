"""A run's documents by their names: of what is written again the newest, of a backfill the newest load's."""

from __future__ import annotations

from datetime import datetime

import pytest

from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.ledger import run_documents
from sluice.ledger.documents import Ledger
from sluice.ledger.keys import run_key
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising
from tests.support.steps import ledger

RUN = "backfill__2026-01-01T00:00:00+00:00"


def put(made: Ledger, run: str, name: str, **document: object) -> None:
    made.put(run_key(run, name), {"by": name, **document})


def test_of_a_proof_that_was_written_again_the_newest() -> None:
    made = ledger("nyc_taxi")
    assert run_documents.newest(made, RUN, "proof") is None
    put(made, RUN, "proof", at="2026-01-01T00:00:02+00:00")
    put(made, RUN, "proof-77", at="2026-01-01T00:00:09+00:00")
    put(made, RUN, "proof-99", at="2026-01-01T00:00:05+00:00")
    # Another document, whose name begins alike.
    put(made, RUN, "proof-of-another-kind", at="2026-01-02T00:00:00+00:00")
    key, document = run_documents.newest(made, RUN, "proof") or ("", {})
    assert (key, document["by"]) == (run_key(RUN, "proof-77"), "proof-77")
    put(made, RUN, "change-proof-5-1", at="2026-01-01T00:00:09+00:00")
    assert (run_documents.newest(made, RUN, "change-proof") or ("",))[0] == run_key(RUN, "change-proof-5-1")


@pytest.mark.parametrize(
    ("written", "triggered", "is_own"),
    [
        # Not by a person; and before a plan could have been written.
        ("2026-01-01T00:00:00+00:00", None, True),
        ("2026-01-01T00:00:09+00:00", "2026-01-01T00:00:00+00:00", True),
        # Clocks differ; a document of an earlier version may have no time.
        ("2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00", True),
        (None, "2026-01-31T00:00:00+00:00", True),
        ("2026-01-01T00:00:00+00:00", "2026-01-02T00:00:01+00:00", False),
        ("2026-01-01T00:00:00+00:00", "2026-01-31T02:00:00+02:00", False),
    ],
)
def test_a_plan_long_before_the_run_was_triggered_is_not_its_own(
    written: str | None, triggered: str | None, is_own: bool
) -> None:
    made, at = ledger("nyc_taxi"), datetime.fromisoformat(triggered) if triggered else None
    document = {"by": "plan", **({"at": written} if written else {})}
    assert run_documents.pin(made, RUN, "plan", lambda: document) == document
    if is_own:
        assert run_documents.pin(made, RUN, "plan", dict, at) == document
        return
    with raising(Refused, RUN, "plan of 2026-01-01T00:00:00", "plan.json", "another run id") as failure:
        run_documents.pin(made, RUN, "plan", dict, at)
    assert failure.value.code is ErrorCode.RUN_ID_REUSED


def test_a_plan_that_is_written_now_is_its_own_whatever_the_clocks_say() -> None:
    """The worker's may be a year behind Airflow's."""
    made, triggered = ledger("nyc_taxi"), datetime.fromisoformat("2026-01-01T00:00:00+00:00")
    document = {"at": "2025-01-01T00:00:00+00:00"}
    assert run_documents.pin(made, RUN, "plan", lambda: document, triggered) == document


def test_what_is_added_again_is_beside_it_and_the_latest_is_the_newest() -> None:
    made = ledger("nyc_taxi")
    for second, who in ((2, "ann"), (9, "bob"), (5, "eve"), (9, "bob")):
        run_documents.add(
            made, RUN, "change-approval", {"who": who, "at": f"2026-01-01T00:00:0{second}+00:00"}
        )
    assert len(list(made.keys(run_key(RUN, "change-approval").removesuffix(".json")))) == 3
    assert (run_documents.newest(made, RUN, "change-approval") or ("", {}))[1]["who"] == "bob"
    with raising(Refused, "another content"):
        run_documents.add(made, RUN, "change-approval", {"who": "mal", "at": "2026-01-01T00:00:09+00:00"})


def test_of_a_backfill_the_newest_load_by_the_run_id() -> None:
    made = ledger("nyc_taxi")
    for number in (1, 2):
        put(made, f"{RUN}#00000{number}", "plan", number=number)
    put(made, f"{RUN}#000001", "proof", number=1)
    key, document = run_documents.find(made, RUN, "plan") or ("", {})
    assert (key, document["number"]) == (run_key(f"{RUN}#000002", "plan"), 2)
    # The newest load has none yet; the one before is no answer.
    assert run_documents.find(made, RUN, "proof") is None
    assert (run_documents.find(made, f"{RUN}#000001", "proof") or ("", {}))[1]["number"] == 1


def backfilled(count: int, documents: int = 1) -> tuple[MemoryS3, Ledger]:
    memory = MemoryS3()
    made = ledger("nyc_taxi", memory)
    for number in range(1, count + 1):
        put(made, f"{RUN}#{number:06d}", "plan")
        for other in range(documents - 1):
            put(made, f"{RUN}#{number:06d}", f"z-{other}")
    # Documents of a run whose id begins alike.
    put(made, f"{RUN}#x", "plan")
    put(made, f"{RUN}#5", "plan")
    put(made, f"{RUN}0#000009", "plan")
    return memory, made


@pytest.mark.parametrize("count", [*range(1, 18), 100, 1000, 1023, 1024, 1025])
def test_the_newest_of_any_number_of_loads(count: int) -> None:
    _, made = backfilled(count)
    assert run_documents.newest_load(made, RUN) == f"{RUN}#{count:06d}"


def test_before_the_first_plan_there_is_no_load() -> None:
    _, made = backfilled(0)
    assert run_documents.newest_load(made, RUN) is None
    put(made, f"{RUN}#000001", "baseline")
    assert run_documents.newest_load(made, RUN) is None


def test_a_load_that_has_only_a_baseline_yet_is_not_the_newest() -> None:
    """Its attempt ended before the plan, and the next one takes the same number."""
    _, made = backfilled(4)
    put(made, f"{RUN}#000005", "baseline")
    assert run_documents.newest_load(made, RUN) == f"{RUN}#000004"


def test_what_the_newest_load_costs_hardly_follows_their_number() -> None:
    memory, made = backfilled(2000, documents=5)
    before, listed = memory.requests.total(), len(memory.listed)
    assert run_documents.newest_load(made, RUN) == f"{RUN}#002000"
    assert memory.requests.total() - before < 30
    assert all(asked["MaxKeys"] == 1 for asked in memory.listed[listed:])


def test_the_names_of_a_run_are_not_those_of_a_run_whose_id_begins_alike() -> None:
    made = ledger("nyc_taxi")
    put(made, "r", "plan")
    put(made, "r", "proof-77")
    put(made, "r2", "plan")
    put(made, "r#000001", "plan")
    assert list(run_documents.names(made, "r")) == [("r", "plan"), ("r", "proof-77"), ("r#000001", "plan")]
