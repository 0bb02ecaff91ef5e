"""A source that was verified once is not verified again, as long as the table has what was verified."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from sluice.airflow.assets import loaded
from sluice.airflow.operators.load.asset_event import EmitAssetEventOperator
from sluice.ledger.history import History
from sluice.ledger.keys import run_key
from sluice.ledger.known_tables import KnownTables
from sluice.loads.planning import plan as plans
from tests.support import lake as lakes
from tests.support.loads import Loads
from tests.support.raising import raising
from tests.support.steps import audited, given

ROWS = 3


@pytest.fixture
def loads(tmp_path: Path) -> Loads:
    """One object was loaded, and a second one lies beside it."""
    made = Loads(tmp_path)
    made.upload("a", ROWS)
    made.load("r1")
    made.upload("b", ROWS)
    return made


def planned(loads: Loads, run: str) -> list[str]:
    return [source["key"] for source in plans.plan_of(loads.ledger, run)["sources"]]


def test_a_new_object_is_verified_and_the_earlier_one_named_as_verified(loads: Loads) -> None:
    proof = loads.load("r2")
    assert planned(loads, "r2") == ["nyc_taxi/b.csv"]
    assert (proof["source_rows"], proof["published"], proof["verified_before"]) == (ROWS, ROWS, 1)
    assert loads.s3.got.count("nyc_taxi/a.csv") == 2, "its header, and its rows once"
    third = loads.load("r3")
    assert (planned(loads, "r3"), third["verified_before"]) == ([], 2)
    assert (third["status"], third["source_rows"]) == ("passed", 0)


def test_the_documents_name_the_load_that_verified_a_source(loads: Loads) -> None:
    loads.load("r2")
    proof = loads.ledger.require(run_key("r2", "proof"), "validate")
    folder = f"verified/{proof['verified_before']['incarnation']}/"
    runs = [(loads.ledger.get(key) or {})["run_id"] for key in loads.ledger.keys(folder)]
    assert sorted(runs) == ["r1", "r2"]


def test_another_version_of_an_object_is_another_source(loads: Loads) -> None:
    loads.upload("a", ROWS + 1)
    loads.load("r2", load_changed_objects=True)
    assert planned(loads, "r2") == ["nyc_taxi/a.csv", "nyc_taxi/b.csv"]


def test_verified_sources_are_verified_again_on_request(loads: Loads) -> None:
    loads.load("r2")
    proof = loads.load("r3", verify_again=True)
    assert planned(loads, "r3") == ["nyc_taxi/a.csv", "nyc_taxi/b.csv"]
    assert (proof["source_rows"], proof["verified_before"]) == (2 * ROWS, 0)


def test_many_sources_are_looked_up_in_one_listing(loads: Loads) -> None:
    for number in range(12):
        loads.upload(f"c{number}", ROWS)
    loads.load("r2")
    requests = loads.requests("r3")
    assert planned(loads, "r3") == []
    # The source's objects, and the verified documents.
    assert requests["LIST"] == 2


def test_a_restored_catalog_has_nothing_verified_until_it_is_published_again(loads: Loads) -> None:
    before = loads.location()
    loads.load("r2")
    loads.restore(before)
    loads.produce("r3")
    assert planned(loads, "r3") == ["nyc_taxi/b.csv"], "the first object is in the restored table"
    with raising(AirflowFailException, "3 gaps", "nyc_taxi/b.csv", "3 missing"):
        loads.validate("r3")
    # As the consumer does: from the restored end offsets on, by another writer.
    (source,) = plans.plan_of(loads.ledger, "r2")["sources"]
    loads.end, loads.writer = ROWS, "w1_bb"
    loads.commit([(source["source_id"], row) for row in range(ROWS)])
    assert loads.validate("r3")["published"] == ROWS
    assert loads.load("r4")["verified_before"] == 2


def test_an_empty_table_has_nothing_verified(loads: Loads) -> None:
    loads.lake.catalog.drop_table(lakes.TABLE)
    loads.lake.catalog.create_table(lakes.TABLE, lakes.ROWS)
    loads.commit([], kind="epoch-start")
    loads.produce("r2")
    assert planned(loads, "r2") == ["nyc_taxi/a.csv", "nyc_taxi/b.csv"]


def test_a_catalog_that_is_restored_between_plan_and_verification_is_no_proof(loads: Loads) -> None:
    loads.upload("c", ROWS)
    before = loads.location()
    loads.load("r2")
    loads.produce("r3")
    loads.restore(before)
    with raising(AirflowFailException, "3 sources that earlier loads verified", lakes.TABLE, "restored"):
        loads.validate("r3")
    assert loads.ledger.get(run_key("r3", "proof")) is None


def emit(loads: Loads, run: str) -> dict[str, Any]:
    """The event's extra."""
    asset, event = loaded("nyc_taxi"), SimpleNamespace(extra={})
    made = EmitAssetEventOperator(task_id="emit_asset_event", stream="nyc_taxi", asset=asset)
    tables = KnownTables(loads.lake, History(loads.s3.as_client(), "s3://w/ledger", "nyc_taxi"))
    made.__dict__ |= {"ledger": loads.ledger, "platform_hook": loads, "tables": tables}
    audited(loads.ledger, run)
    made.execute(given(run_id=run, outlet_events={asset: event}))
    return event.extra


def test_a_proof_that_the_table_does_not_stand_for_any_more_is_announced_by_no_event(loads: Loads) -> None:
    """A person who clears only the last task takes it for verified."""
    before = loads.location()
    loads.load("r2")
    after = loads.location()
    loads.load("r3")
    assert [emit(loads, run)["run_id"] for run in ("r1", "r2", "r3")] == ["r1", "r2", "r3"]
    loads.restore(before)
    assert emit(loads, "r1")["run_id"] == "r1"
    # The third load sent nothing: it rests on the second.
    for run in ("r2", "r3"):
        with raising(AirflowFailException, "SLU-401", run, lakes.TABLE, "restored", "Fix: clear validate"):
            emit(loads, run)
    loads.restore(after)
    assert emit(loads, "r3")["run_id"] == "r3"


def test_a_proof_of_a_table_that_is_gone_is_announced_by_no_event(loads: Loads) -> None:
    loads.lake.catalog.drop_table(lakes.TABLE)
    with raising(AirflowFailException, "SLU-223", lakes.TABLE):
        emit(loads, "r1")


def test_without_a_proof_nothing_is_verified(loads: Loads) -> None:
    loads.produce("r2")
    loads.commit([("f" * 16, 0)])
    # A row twice.
    (source,) = plans.plan_of(loads.ledger, "r2")["sources"]
    loads.commit([(source["source_id"], 0)])
    with raising(AirflowFailException, "1 more than once"):
        loads.validate("r2")
    loads.produce("r3")
    assert planned(loads, "r3") == ["nyc_taxi/b.csv"]
