"""What the ledger must have, by Airflow's Variables."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError

from sluice.airflow import hook as platform_hook
from sluice.ledger.documents import Ledger
from sluice.ledger.marks import LedgerMarks
from tests.support.memory_s3 import MemoryS3
from tests.support.steps import ledger
from tests.support.variables import Variables


@pytest.fixture
def memory() -> MemoryS3:
    return MemoryS3()


def marks_of(kept: Ledger) -> LedgerMarks:
    return LedgerMarks(kept, platform_hook.Variable)


def marked(memory: MemoryS3, key: str) -> LedgerMarks:
    kept = ledger("nyc_taxi", memory)
    kept.put(key, {})
    marks = marks_of(kept)
    marks.leave("proof", key)
    return marks


def test_what_the_ledger_has_is_not_lost(memory: MemoryS3) -> None:
    assert marks_of(ledger("nyc_taxi", memory)).lost("proof") is None
    assert marked(memory, "a").lost("proof") is None


def test_a_lost_document_is_known_until_it_is_told_though_others_come(memory: MemoryS3) -> None:
    marked(memory, "a")
    memory.objects.clear()
    later = marked(memory, "b")
    assert later.lost("proof") == "s3://w/ledger/nyc_taxi/a"
    later.forget("proof")
    assert later.lost("proof") is None
    later.leave("proof", "b")
    memory.objects.clear()
    assert later.lost("proof") == "s3://w/ledger/nyc_taxi/b"
    later.ledger.put("c", {})
    later.replace("proof", "c")
    assert later.lost("proof") is None


def test_kinds_and_components_have_marks_of_their_own(memory: MemoryS3) -> None:
    marked(memory, "a")
    memory.objects.clear()
    assert marks_of(ledger("nyc_taxi", memory)).lost("requests") is None
    assert marks_of(Ledger(memory.as_client(), "s3://w/ledger", "nyc_taxi.queries")).lost("proof") is None


def test_it_costs_a_request_whatever_came_before(memory: MemoryS3) -> None:
    for number in range(50):
        marks = marked(memory, f"{number}")
    memory.requests.clear()
    marks.lost("proof")
    assert memory.requests == {"GET": 1}


def test_an_airflow_that_does_not_answer_is_no_missing_mark(memory: MemoryS3) -> None:
    marks, variables = marked(memory, "a"), platform_hook.Variable
    memory.objects.clear()
    assert isinstance(variables, Variables)
    variables.is_down = True
    with pytest.raises(AirflowRuntimeError):
        marks.lost("proof")
    with pytest.raises(AirflowRuntimeError):
        marks.leave("proof", "b")
    variables.is_down = False
    assert marks.lost("proof") == "s3://w/ledger/nyc_taxi/a"
