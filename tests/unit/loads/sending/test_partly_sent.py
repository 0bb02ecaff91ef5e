"""Objects that a failed load has sent in part: nothing of another version comes beside their rows unsaid."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Unreachable
from sluice.ledger.documents import Ledger
from sluice.ledger.keys import planned_key
from sluice.loads.known.index import ObjectContents
from sluice.loads.known.verified import VerifiedSources
from sluice.loads.planning import plan as plans
from sluice.loads.sending import partly_sent
from sluice.loads.sources import csv_object
from tests.support import lake as lakes
from tests.support.loads import Loads
from tests.support.raising import raising

A = "nyc_taxi/a.csv"
FAILED = "SLU-500 the producer of stream 'nyc_taxi' failed: Kafka is gone"
WAY_ON = ("nyc_taxi_load with objects=nyc_taxi/a.csv and withhold", "nyc_taxi_change with action=replace")


class Failing(Loads):
    """Whose job sends ``rows`` rows of each object and fails, unless that is None."""

    rows: int | None = None

    def _send(self, context: Any, options: Any) -> None:
        if self.rows is None:
            return super()._send(context, options)
        plan = plans.plan_of(self.ledger, context["run_id"])
        for source in plan["sources"]:
            if self.rows:
                self.commit([(source["source_id"], row) for row in range(self.rows)])
        raise AirflowException(FAILED)


@pytest.fixture
def loads(tmp_path: Path) -> Failing:
    """An object of which a load has sent two of three rows."""
    made = Failing(tmp_path)
    made.upload("a")
    made.rows = 2
    return made


def fail(loads: Failing, run: str, **params: Any) -> str:
    with pytest.raises(AirflowException) as failure:
        loads.produce(run, **params)
    loads.rows = None
    return str(failure.value)


def test_a_failed_send_names_its_objects_and_the_way_on(loads: Failing) -> None:
    said = fail(loads, "r1")
    assert said.startswith(
        "SLU-500 the producer of stream 'nyc_taxi' failed: Kafka is gone. May be sent in part: "
    )
    for words in (f"s3://source/{A}", "2 records of any source", "clear produce", *WAY_ON):
        assert words in said


def test_records_of_others_are_not_taken_for_those_of_the_object(
    loads: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A corrupt object of which nothing was sent, while another load sends: the offsets cannot tell."""
    loads.rows, send = 0, loads._send

    def send_beside(*args: Any) -> None:
        loads.commit([("0123456789abcdef", row) for row in range(5)])
        send(*args)

    monkeypatch.setattr(loads, "_send", send_beside)
    said = fail(loads, "r1")
    assert "May be sent in part: " in said
    assert "5 records of any source" in said


def test_a_send_that_failed_because_kafka_is_gone_says_what_is_not_known(
    loads: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = loads._send

    def gone(_topic: str) -> dict[int, int]:
        raise Unreachable("no broker answers")

    def end_kafka(*args: Any) -> None:
        monkeypatch.setattr(loads, "ends", gone)
        send(*args)

    monkeypatch.setattr(loads, "_send", end_kafka)
    said = fail(loads, "r1")
    assert said.startswith(
        "SLU-500 the producer of stream 'nyc_taxi' failed: Kafka is gone. May be sent in part: "
    )
    assert "an unknown number of records" in said


def test_of_a_send_that_failed_at_once_it_says_that_nothing_was_sent(loads: Failing) -> None:
    loads.rows = 0
    assert fail(loads, "r1").endswith(f"Kafka is gone. Nothing was sent of s3://source/{A}")


@pytest.mark.parametrize("params", [{}, {"objects": [A]}, {"load_changed_objects": True}])
def test_a_corrected_version_is_refused_beside_an_older_one_that_is_sent_in_part(
    loads: Failing, params: dict[str, Any]
) -> None:
    fail(loads, "r1")
    loads.upload("a", rows=4)
    before, end = dict(loads.s3.objects), loads.end
    with raising(AirflowFailException, ErrorCode.SENT_IN_PART, A, "run 'r1'", "nothing was sent", *WAY_ON):
        loads.produce("r2", **params)
    assert (loads.s3.objects, loads.end) == (before, end)
    # The way on: its records wait in quarantine, and the older one's rest may still come.
    assert loads.load("r3", objects=[A], withhold=True)["withheld"] == 4


def test_the_retry_goes_on_and_then_the_older_version_is_whole(loads: Failing) -> None:
    fail(loads, "r1")
    source = plans.plan_of(loads.ledger, "r1")["sources"][0]["source_id"]
    loads._send = lambda *_: loads.commit([(source, 2)])  # type: ignore[method-assign]
    assert loads.load("r1")["published"] == 3


def test_an_older_version_of_which_nothing_was_sent_stops_no_correction_and_is_not_sent_later(
    loads: Failing,
) -> None:
    """A wrong header, say."""
    loads.rows = 0
    fail(loads, "r1")
    loads.upload("a", rows=4)
    with raising(AirflowFailException, ErrorCode.KEY_ALREADY_LOADED, "may have sent a part of"):
        loads.produce("refused")
    assert loads.load("r2", load_changed_objects=True)["published"] == 4
    end = loads.end
    with raising(AirflowFailException, ErrorCode.SENT_IN_PART, A, "run 'r2'", "Fix: trigger a new run"):
        loads.produce("r1")
    assert loads.end == end


def test_a_version_that_another_run_planned_since_stops_the_first_attempt_too(
    loads: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the plan and the job, in which an attempt that hung may go on late."""
    loads.rows = None
    check, is_first = partly_sent.check_rules, [True]

    def overtaken(*given: Any) -> None:
        check(*given)
        if is_first:
            is_first.clear()
            loads.upload("a", rows=4)
            loads.produce("r2", load_changed_objects=True)

    monkeypatch.setattr(partly_sent, "check_rules", overtaken)
    with raising(AirflowFailException, ErrorCode.SENT_IN_PART, A, "run 'r2'", "Fix: trigger a new run"):
        loads.produce("r1")
    assert loads.end == 4


def died_before_its_plan(loads: Failing, run: str, monkeypatch: pytest.MonkeyPatch, **params: Any) -> None:
    """Its contents are in the index, and it planned nothing."""

    def die(*_: Any, **__: Any) -> Any:
        raise Unreachable("the task was killed")

    with monkeypatch.context() as patched:
        patched.setattr(plans.LoadPlanner, "_plan_source", die)
        with pytest.raises(Unreachable):
            loads.produce(run, **params)


def test_a_content_that_has_no_plan_was_never_sent(loads: Failing, monkeypatch: pytest.MonkeyPatch) -> None:
    loads.rows = None
    died_before_its_plan(loads, "r1", monkeypatch)
    loads.upload("a", rows=4)
    assert loads.load("r2")["published"] == 4
    # The first content comes again: it is no more than another content.
    loads.upload("a")
    with raising(AirflowFailException, ErrorCode.KEY_ALREADY_LOADED, "run 'r2' has loaded"):
        loads.produce("r3")


def test_a_run_that_is_planning_is_not_taken_for_one_that_died(
    loads: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its plan comes after another run looked for it, and before that has its own content in the index."""
    loads.rows = None
    died_before_its_plan(loads, "r1", monkeypatch)
    (first,) = loads.source.resolve("nyc_taxi/")
    loads.upload("a", rows=4)
    headers, is_first = csv_object.check_headers, [True]

    def late(*given: Any) -> None:
        headers(*given)
        if is_first:
            is_first.clear()
            document = {"run_id": "r1", "topic": "nyc_taxi", "start_offsets": {"0": 0}}
            loads.ledger.put(planned_key(first.source_id), document)

    monkeypatch.setattr(csv_object, "check_headers", late)
    with raising(AirflowFailException, ErrorCode.KEY_ALREADY_LOADED, "run 'r1' has planned"):
        loads.produce("r2")
    assert loads.end == 0


def test_a_later_content_without_a_plan_yet_stops_an_earlier_one(
    loads: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its run may be planning, and has looked for the earlier one's plan before there was one."""
    loads.rows = 0
    fail(loads, "r1")
    loads.upload("a", rows=4)
    died_before_its_plan(loads, "r2", monkeypatch, load_changed_objects=True)
    with raising(AirflowFailException, ErrorCode.SENT_IN_PART, A, "another run", "nothing was sent"):
        loads.produce("r1")
    assert loads.load("r3", load_changed_objects=True)["published"] == 4


def test_a_retry_under_another_limit_is_refused_until_that_is_as_it_was(loads: Failing) -> None:
    fail(loads, "r1")
    before, loads.max_bytes = loads.max_bytes, 500_000
    end = loads.end
    said = (
        ErrorCode.RULES_CHANGED,
        A,
        "1048588",
        "500000",
        "nothing was sent",
        "Fix: go back",
        "revert and load=r1",
    )
    with raising(AirflowFailException, *said):
        loads.produce("r1")
    # Also a new run, of the same version: its plan is the source's.
    with raising(AirflowFailException, *said):
        loads.produce("r2")
    assert loads.end == end
    loads.max_bytes = before
    source = plans.plan_of(loads.ledger, "r1")["sources"][0]["source_id"]
    loads._send = lambda *_: loads.commit([(source, 2)])  # type: ignore[method-assign]
    assert loads.load("r1")["published"] == 3


def test_a_load_that_is_sent_is_verified_under_whatever_limit(loads: Failing) -> None:
    loads.rows = None
    loads.produce("r1")
    loads.max_bytes = 500_000
    assert loads.load("r1")["published"] == 3


def test_what_may_be_sent_in_part_is_asked_of_all_objects_at_once(
    loads: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For each other content its plan is read, and how far it was sent."""
    names = [f"old-{number}" for number in range(3)]
    for name in names:
        loads.upload(name)
    loads.rows = None
    loads.load("r1")
    for name in names:
        loads.upload(name, 4)
    together, get = threading.Barrier(3), Ledger.get

    def meeting(ledger: Ledger, key: str) -> Any:
        asked.append(key)
        if key.endswith("produced.json") and "sources/" in key:
            together.wait(5)
        return get(ledger, key)

    asked: list[str] = []
    source = loads.source.within("nyc_taxi/")
    contents = ObjectContents(loads.ledger, source, VerifiedSources(loads.ledger, loads.lake, lakes.TABLE))
    found = [contents.look_up(loads.source.head(f"nyc_taxi/{name}.csv")) for name in names]
    monkeypatch.setattr(Ledger, "get", meeting)
    partly_sent.check_others(contents, found, lambda: loads.ends(""))
    assert len(asked) == 2 * len(names)
