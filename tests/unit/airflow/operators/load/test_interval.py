"""A backfill's interval, run again: late and corrected files are seen, and only the difference is loaded."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from sluice.airflow.failures import final_failures
from sluice.airflow.operators.load.interval import (
    CheckCorrectedFilesOperator,
    ProduceIntervalOperator,
    load_id,
)
from sluice.airflow.sensors.published import PublishedSensor
from sluice.config import streams
from sluice.core.offsets.quarantine import DUPLICATE
from sluice.ledger.keys import planned_key, run_key
from sluice.ledger.run_documents import newest_load
from sluice.loads.known.verified import VerifiedSources
from sluice.loads.planning import interval as interval_plan
from sluice.loads.planning import plan as plans
from tests.support import lake as lakes
from tests.support.loads import Loads
from tests.support.raising import raising
from tests.support.steps import NewTables, ValidateRows, given

ROWS = 3
RUN = "backfill__2020-07-01T00:00:00+00:00"
JUNE = datetime(2020, 6, 1, tzinfo=UTC)


class Backfills(Loads):
    """Backfills of June 2020; a file of another month lies beside."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.dag = DAG("nyc_taxi_backfill", schedule=None)
        self.put("2020-07")

    def step(self, kind: type[Any], task: str) -> Any:
        operator = kind(task_id=task, stream="nyc_taxi", dag=DAG("nyc_taxi_backfill", schedule=None))
        operator.__dict__ |= {"tables": NewTables(), "platform_hook": self, "ledger": self.ledger}
        return operator

    def put(self, name: str, rows: int = ROWS) -> None:
        self.upload(f"yellow_tripdata_{name}", rows)

    def correct(self, name: str, rows: int) -> None:
        """A new version; the bucket keeps the older one."""
        self.put(name, rows)

    def send(self, begin: datetime | None = JUNE) -> dict[str, Any]:
        operator = self.step(ProduceIntervalOperator, "produce")
        operator.__dict__["submit"] = self._send_interval
        return dict(operator.execute(given(run_id=RUN, params={}, data_interval_start=begin)))

    def _send_interval(self, _context: Any, options: Any) -> None:
        load = interval_plan.require_newest(self.ledger, RUN)
        assert options == ["--plan", self.ledger.uri(run_key(load, "plan"))]
        self._send(given(run_id=load), options)

    def prove(self) -> dict[str, Any]:
        operator = self.step(ValidateRows, "validate")
        with final_failures():
            return dict(operator.work(given(run_id=RUN, params={"max_quarantined_percent": 0})))

    def run(self) -> dict[str, Any]:
        self.send()
        return self.prove()

    def check(self) -> dict[str, Any]:
        with final_failures():
            return dict(self.step(CheckCorrectedFilesOperator, "check").work(given(run_id=RUN)))

    def plan(self) -> dict[str, Any]:
        return plans.plan_of(self.ledger, interval_plan.require_newest(self.ledger, RUN))

    def keys(self) -> list[str]:
        return [source["key"].removeprefix("nyc_taxi/yellow_tripdata_") for source in self.plan()["sources"]]


@pytest.fixture
def june(tmp_path: Path) -> Backfills:
    made = Backfills(tmp_path)
    made.put("2020-06")
    return made


def test_an_interval_loads_its_own_files(june: Backfills) -> None:
    proof = june.run()
    assert (june.keys(), proof["published"], june.end) == (["2020-06.csv"], ROWS, ROWS)
    assert june.plan()["run_id"] == f"{RUN}#000001"
    assert june.plan()["params"] == {
        "interval": "2020-06-01T00:00:00+00:00",
        "pattern": "nyc_taxi/yellow_tripdata_2020-06*.csv*",
    }
    assert june.check() == {"load": f"{RUN}#000001", "files": 1}
    assert june.ledger.get(run_key(f"{RUN}#000001", "baseline")) is not None


def test_a_reprocessed_run_loads_the_late_file_only(june: Backfills) -> None:
    june.run()
    june.put("2020-06_late", 2)
    proof = june.run()
    assert (june.keys(), proof["published"], proof["verified_before"]) == (
        ["2020-06_late.csv"],
        2,
        1,
    )
    assert june.end == ROWS + 2
    assert june.plan()["run_id"] == f"{RUN}#000002"
    third = june.run()
    assert (june.keys(), third["source_rows"], june.end) == ([], 0, ROWS + 2)


def test_a_retry_goes_on_with_its_plan(june: Backfills) -> None:
    june.send()
    june.send()
    june.send()
    assert (june.plan()["run_id"], june.end) == (f"{RUN}#000001", ROWS)


def test_a_file_that_came_between_two_attempts_is_in_the_next_plan_and_nothing_is_sent_twice(
    june: Backfills,
) -> None:
    june.send()
    june.put("2020-06_late", 2)
    proof = june.run()
    assert (sorted(june.keys()), proof["published"], june.end) == (
        ["2020-06.csv", "2020-06_late.csv"], ROWS + 2, ROWS + 2,
    )  # fmt: skip


def test_a_cleared_step_finds_the_plan_of_the_newest_attempt_of_produce(june: Backfills) -> None:
    """Also after another step was cleared: that counts no plan."""
    june.run()
    june.put("2020-06_late", 2)
    june.run()
    assert june.prove()["published"] == 2
    waiting = june.step(PublishedSensor, "wait_for_publish")
    assert load_id(waiting, given(run_id=RUN)) == f"{RUN}#000002"


def test_a_file_of_a_manual_load_is_not_loaded_again(june: Backfills) -> None:
    june.load("manual")
    before = june.end
    proof = june.run()
    assert (june.keys(), june.end, proof["verified_before"]) == ([], before, 1)


def test_a_deleted_run_that_is_created_again_sees_what_came_since(june: Backfills) -> None:
    """It has the same run id, and counts its clears from 0."""
    june.run()
    june.put("2020-06_late", 2)
    assert june.run()["published"] == 2


def test_a_corrected_file_is_left_out_and_named_and_the_others_are_loaded(june: Backfills) -> None:
    june.run()
    june.correct("2020-06", ROWS + 4)
    june.put("2020-06_late", 2)
    proof = june.run()
    assert (june.keys(), proof["published"], june.end) == (["2020-06_late.csv"], 2, ROWS + 2)
    words = (
        "SLU-312",
        "2020-06.csv",
        "is not",
        "nyc_taxi_load with objects=nyc_taxi/yellow_tripdata_2020-06.csv and withhold",
        "nyc_taxi_change",
        "action=replace",
        "clear the run's produce with its downstream tasks",
        "local/run airflow backfill create --dag-id nyc_taxi_backfill --from-date 2020-06-01 ",
        "--to-date 2020-06-01 --reprocess-behavior failed",
    )
    with raising(AirflowFailException, *words):
        june.check()


def test_a_file_that_is_uploaded_again_is_no_corrected_one(june: Backfills) -> None:
    june.run()
    june.put("2020-06")
    proof = june.run()
    assert (june.keys(), june.end, proof["verified_before"]) == ([], ROWS, 1)
    assert proof["uploaded_again"] == "s3://source/nyc_taxi/yellow_tripdata_2020-06.csv"
    assert june.check()["files"] == 0
    plan = june.plan()["run_id"]
    june.run()
    assert june.plan()["run_id"] == plan, "no further plan for the same"


def test_of_a_manual_load_too_a_corrected_file_is_left_out(june: Backfills) -> None:
    """The index of contents is the stream's, not the run's."""
    june.load("manual", objects=["nyc_taxi/yellow_tripdata_2020-06.csv"])
    end = june.end
    june.put("2020-06", ROWS + 4)
    june.send()
    assert (june.keys(), june.end) == ([], end)
    with raising(AirflowFailException, "SLU-312", "2020-06.csv"):
        june.check()


def test_without_the_index_of_contents_a_corrected_file_is_one_still(june: Backfills) -> None:
    """The ledger lost it: the bucket's versions and their plans tell."""
    june.run()
    for place in [place for place in june.s3.objects if "/objects/" in place[1]]:
        del june.s3.objects[place]
    june.correct("2020-06", ROWS + 4)
    june.send()
    assert (june.keys(), june.end) == ([], ROWS)
    with raising(AirflowFailException, "SLU-312", "2020-06.csv"):
        june.check()


def test_a_pattern_of_other_files_than_the_streams_is_refused(
    june: Backfills, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that passed the declaration."""
    spec = streams.load("nyc_taxi")
    assert spec.backfill is not None
    other = replace(spec.backfill, pattern="other/%Y-%m*.csv*")
    monkeypatch.setattr(
        ProduceIntervalOperator, "spec", property(lambda _: replace(spec, backfill=other)), raising=False
    )
    with raising(AirflowFailException, "SLU-104", "'other/2020-06'", "'nyc_taxi/'"):
        june.send()


def test_a_version_that_was_sent_and_never_verified_counts_as_loaded(june: Backfills) -> None:
    june.send()
    june.correct("2020-06", ROWS + 4)
    june.send()
    assert (june.keys(), june.end) == ([], ROWS)
    with raising(AirflowFailException, "SLU-312"):
        june.check()


def test_a_correction_is_seen_although_the_bucket_no_longer_has_the_older_version(june: Backfills) -> None:
    june.run()
    june.put("2020-06", ROWS + 4)
    june.send()
    assert (june.keys(), june.end) == ([], ROWS)
    with raising(AirflowFailException, "SLU-312"):
        june.check()


def test_a_file_that_was_corrected_before_it_was_loaded_is_loaded(june: Backfills) -> None:
    june.correct("2020-06", ROWS + 4)
    assert june.run()["published"] == ROWS + 4
    assert june.check()["files"] == 1


def test_a_corrected_file_stays_a_finding_until_its_older_rows_are_out(
    june: Backfills, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A manual load of the new version alone leaves both in the table."""
    june.run()
    (old,) = [source["source_id"] for source in june.plan()["sources"]]
    june.correct("2020-06", ROWS + 4)
    june.load("manual", objects=["nyc_taxi/yellow_tripdata_2020-06.csv"], load_changed_objects=True)
    june.send()
    with raising(AirflowFailException, "SLU-312", "loaded beside them", "action=replace"):
        june.check()
    monkeypatch.setattr(VerifiedSources, "reverted", frozenset({old}))
    june.send()
    assert (june.keys(), june.check()["files"]) == ([], 0)


def test_a_file_whose_older_version_was_reverted_is_loaded(
    june: Backfills, monkeypatch: pytest.MonkeyPatch
) -> None:
    june.run()
    (old,) = [source["source_id"] for source in june.plan()["sources"]]
    june.correct("2020-06", ROWS + 4)
    monkeypatch.setattr(VerifiedSources, "reverted", frozenset({old}))
    assert june.run()["published"] == ROWS + 4
    assert june.check()["files"] == 1


def test_an_interval_of_which_a_file_was_reverted_is_not_complete(
    june: Backfills, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it was before the plan, after it, or of a file that another load verified."""
    june.put("2020-06_late", 2)
    june.load("manual", objects=["nyc_taxi/yellow_tripdata_2020-06.csv"])
    (old,) = [source["source_id"] for source in plans.plan_of(june.ledger, "manual")["sources"]]
    june.run()
    assert (june.keys(), june.check()["files"]) == (["2020-06_late.csv"], 1)
    words = ("SLU-312", "2020-06.csv", "a change took its rows out", "nyc_taxi_change with action=redo")
    with monkeypatch.context() as reverted:
        reverted.setattr(VerifiedSources, "reverted", frozenset({old}))
        with raising(AirflowFailException, *words):
            june.check()
        june.run()
        with raising(AirflowFailException, *words):
            june.check()
    june.run()
    assert june.check()["files"] == 0


def test_an_interval_without_a_file_fails_and_plans_nothing(june: Backfills) -> None:
    words = (
        "clear the run's produce with its downstream tasks",
        "--from-date 2020-05-01 --to-date 2020-05-01 --reprocess-behavior failed",
    )
    with raising(AirflowFailException, "SLU-311", "2020-05*.csv*", *words):
        june.send(datetime(2020, 5, 1, tzinfo=UTC))
    assert newest_load(june.ledger, RUN) is None
    with raising(Exception, "has no plan", "produce"):
        june.prove()


def test_a_run_without_an_interval_is_refused(june: Backfills) -> None:
    with raising(AirflowFailException, "SLU-104", "nyc_taxi_load"):
        june.send(None)


def test_two_attempts_at_once_pin_one_plan(june: Backfills, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one planned meanwhile, before a file came: this attempt pins the next plan."""
    original = plans.LoadPlanner.pin
    calls: list[str] = []

    def pin(planner: plans.LoadPlanner, run_id: str, *args: Any) -> Any:
        if not calls:
            calls.append(run_id)
            june.s3.objects.pop(("source", "nyc_taxi/yellow_tripdata_2020-06_late.csv"))
            june.send()
            june.put("2020-06_late", 2)
        return original(planner, run_id, *args)

    june.put("2020-06_late", 2)
    monkeypatch.setattr(plans.LoadPlanner, "pin", pin)
    june.send()
    assert (len(june.keys()), june.plan()["run_id"], june.end) == (2, f"{RUN}#000002", ROWS + 2)
    assert june.prove()["published"] == ROWS + 2


def test_a_load_and_a_backfill_that_send_an_object_at_once_both_verify_each_row_once(
    june: Backfills, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The load is whole between the backfill's plan and its job, which sends copies: the consumer
    quarantines them (tests/spark/test_writer.py)."""
    key = "nyc_taxi/yellow_tripdata_2020-06.csv"
    proofs = []

    def late(_context: Any, _options: Any) -> None:
        june.produce("manual", objects=[key])
        (source,) = june.plan()["sources"]
        lakes.quarantine(
            june.lake,
            [
                {
                    "stage": "consumer", "reason": f"{DUPLICATE} this row is in the table already",
                    "_kafka_partition": 0, "_kafka_offset": june.end + row,
                    "_source_id": source["source_id"], "_source_row": row,
                }
                for row in range(ROWS)
            ],
        )  # fmt: skip
        june.commit([], rejected=ROWS)
        proofs.append(june.validate("manual", max_quarantined_percent=0))

    monkeypatch.setattr(june, "_send_interval", late)
    proofs.append(june.run())
    assert [(proof["published"], proof["quarantined"], proof["duplicates"]) for proof in proofs] == [
        (ROWS, 0, 0), (ROWS, 0, 0),
    ]  # fmt: skip
    assert june.end == 2 * ROWS


def test_what_an_interval_asks_does_not_grow_with_the_bucket(june: Backfills) -> None:
    def asked() -> int:
        before = june.s3.requests.total()
        june.send()
        return june.s3.requests.total() - before

    june.run()
    asked()
    few = asked()
    for year in range(2009, 2019):
        for month in range(1, 13):
            june.put(f"{year}-{month:02}")
            june.ledger.put(planned_key(f"{year}{month}"), {"topic": "t"})
    assert asked() == few
