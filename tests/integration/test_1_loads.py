"""Loads through Airflow's REST API: what goes in comes out once, and what is wrong is red or aside."""

from __future__ import annotations

import gzip

import pytest

from local.airflow_client import AirflowError
from tests.integration.rig import DAG, SPEC, Rig

STEPS = ["provision_topic", "ensure_stream", "produce", "landed", "validate", "audit", "announce"]


def test_the_whole_way_on_a_topic_that_had_fewer_partitions(rig: Rig) -> None:
    assert len(rig.bounds()) < SPEC.topic.partitions
    rows = rig.slice(0, 1200)
    run = rig.load(objects=[rig.put("first.csv", rows)])
    assert (run.state, run.tasks) == ("success", dict.fromkeys(STEPS, "success"))
    assert len(rig.bounds()) == SPEC.topic.partitions
    (source,) = run.sources
    assert rig.rows_of(source) == list(range(len(rows)))
    rig.assert_exact()
    proof = run.xcom("validate")
    assert (proof["status"], proof["source_rows"], proof["published"]) == ("exact", 1200, 1200)
    audit = run.xcom("audit")
    assert audit["counts"]
    assert all(count["after"]["delete_markers"] == 0 for count in audit["counts"].values())
    events = rig.airflow.request("GET", "/assets/events", params={"source_dag_id": DAG})["asset_events"]
    assert "exact" in str(events[-1]["extra"])


def test_an_object_loaded_again_and_every_task_cleared_change_nothing(rig: Rig) -> None:
    key = rig.put("again.csv", rig.slice(1200, 300))
    first = rig.load(objects=[key])
    topic, rows = rig.bounds(), len(rig.coordinates())
    second = rig.load(objects=[key])
    rig.airflow.clear(DAG, first.run_id, STEPS)
    cleared = rig.finish(first.run_id)
    assert [first.state, second.state, cleared.state] == ["success"] * 3
    assert rig.bounds() == topic
    assert len(rig.coordinates()) == rows
    assert second.sources == first.sources


def test_two_runs_at_once(rig: Rig) -> None:
    shared, own = rig.put("shared.csv", rig.slice(1500, 400)), rig.put("own.csv.gz", [])
    rig.put_bytes("own.csv.gz", gzip.compress("\n".join([rig.sample[0], *rig.slice(1900, 250)]).encode()))
    runs = [rig.start(objects=[shared]), rig.start(objects=[shared, own])]
    finished = [rig.finish(run) for run in runs]
    assert [run.state for run in finished] == ["success", "success"]
    assert sorted(len(rig.rows_of(source)) for source in finished[1].sources) == [250, 400]
    rig.assert_exact()


def test_malformed_rows_and_undecodable_records_are_set_aside_with_the_reason(rig: Rig) -> None:
    rows = rig.slice(2200, 200)
    rows[10] = "1,2,3"
    rows[20] = rows[20].replace("2018", "201x")
    newer = [row + ",2.5,surprise" for row in rows]
    newer[30] = ",".join(["", *rows[30].split(",")[1:3], "", *rows[30].split(",")[4:], "", ""])
    key = rig.put("odd.csv", newer, rig.sample[0] + ",congestion_surcharge,new_column")
    good = rig.trips(1)[0]
    rig.send({0: [b"garbage", good, None], 3: [b""], 7: [(good or b"") + b"\x00"]})
    run = rig.load(objects=[key], max_quarantined_percent=2)
    assert run.state == "success"
    (source,) = run.sources
    assert rig.rows_of(source) == [n for n in range(200) if n not in (10, 20)]
    aside = {r["_source_row"]: r for r in rig.quarantine() if r["_source_id"] == source}
    assert sorted(aside) == [10, 20]
    assert aside[10]["line"] == 12
    assert aside[10]["object"] == f"s3://source/{key}"
    assert aside[10]["value"] == b"1,2,3,2.5,surprise"
    assert "5 columns, the header names 19" in aside[10]["reason"]
    assert "tpep_pickup_datetime" in aside[20]["reason"]
    undecodable = [r["value"] for r in rig.quarantine() if r["stage"] == "topic"]
    assert sorted(undecodable, key=str) == sorted([b"garbage", None, b"", (good or b"") + b"\x00"], key=str)
    rig.assert_exact()
    scan = rig.table().scan(row_filter=f"_source_id = '{source}' and _source_row in (29, 30)").to_arrow()
    by_row = {row["_source_row"]: row for row in scan.to_pylist()}
    assert dict(by_row[29]["other_columns"]) == {"new_column": "surprise"}
    assert by_row[29]["congestion_surcharge"] == 2.5
    assert (by_row[30]["VendorID"], by_row[30]["passenger_count"], by_row[30]["other_columns"]) == (None,) * 3

    refused = rig.load(objects=[key], max_quarantined_percent=0.5)
    assert (refused.state, refused.tasks["validate"]) == ("failed", "failed")
    assert "2 of 200 rows" in refused.log("validate")


def test_an_object_without_rows_is_a_load_of_none(rig: Rig) -> None:
    before = rig.bounds()
    run = rig.load(objects=[rig.put("header-only.csv", [])])
    assert run.state == "success"
    assert run.xcom("validate")["source_rows"] == 0
    assert rig.bounds() == before


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("no-bytes.csv", b"", "has no header line"),
        ("cut.csv.gz", None, "cut.csv.gz"),
        ("missing.csv", False, "missing.csv"),
    ],
)
def test_a_source_that_cannot_be_read_is_red_and_named(
    name: str, body: bytes | bool | None, words: str, rig: Rig
) -> None:
    before, rows = rig.bounds(), len(rig.coordinates())
    if body is None:
        whole = gzip.compress("\n".join([rig.sample[0], *rig.slice(0, 3000)]).encode())
        body = whole[: len(whole) // 2]
    if isinstance(body, bytes):
        rig.put_bytes(name, body)
    run = rig.load(objects=[f"tests/{name}"])
    assert (run.state, run.tasks["produce"]) == ("failed", "failed")
    assert rig.attempts(run.run_id, "produce") == 1, "another attempt cannot help"
    assert words in run.log("produce")
    assert (rig.bounds(), len(rig.coordinates())) == (before, rows)


def test_a_prefix_that_holds_nothing_is_red_and_named(rig: Rig) -> None:
    run = rig.load(source_prefix="nothing/here/")
    assert run.state == "failed"
    assert "nothing/here/" in run.log("produce", rig.attempts(run.run_id, "produce"))


@pytest.mark.parametrize(
    "conf",
    [
        {"source_prefix": "/absolute"},
        {"objects": ["picture.png"]},
        {"max_quarantined_percent": 101},
        {"landed_timeout_minutes": 0},
    ],
)
def test_a_bad_value_is_refused_before_anything_runs(conf: dict[str, object], rig: Rig) -> None:
    with pytest.raises(AirflowError) as refusal:
        rig.start(**conf)
    assert refusal.value.status == 400
    assert next(iter(conf)) in str(refusal.value)


def test_one_batch_over_all_partitions_stays_within_its_budget(rig: Rig) -> None:
    rig.wait_for_everything()
    lake = {"Bucket": "warehouse", "Prefix": "lake/"}

    def versions() -> tuple[int, int]:
        pages = rig.stack.admin_s3().get_paginator("list_object_versions").paginate(**lake)
        found = [(len(page.get("Versions", [])), len(page.get("DeleteMarkers", []))) for page in pages]
        return sum(v for v, _ in found), sum(m for _, m in found)

    (versions_before, markers_before), calls_before = versions(), rig.stack.minio_requests()
    before = rig.metadata_location()
    rig.send({partition: rig.trips(300) for partition in range(SPEC.topic.partitions)})
    rig.wait_for_commit(before)
    appended = rig.metadata_location()
    rig.wait_for_commit(appended)
    calls_after, (versions_after, markers_after) = rig.stack.minio_requests(), versions()
    calls = {api: calls_after[api] - calls_before.get(api, 0) for api in calls_after}
    spent = {api: n for api, n in calls.items() if n and not api.lower().startswith("listobject")}
    print(f"one batch of 10 partitions: {sum(spent.values())} S3 calls {spent}")
    assert versions_after - versions_before <= SPEC.budget.versions_per_batch
    assert markers_after == markers_before == 0
    assert 0 < sum(spent.values()) <= SPEC.budget.s3_calls_per_batch
    rig.wait_for_everything()
    rig.assert_exact()
