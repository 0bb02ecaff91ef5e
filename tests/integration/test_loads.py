"""Loads through Airflow's REST API: what goes in comes out once, and what is wrong is red or quarantined."""

from __future__ import annotations

import gzip

import pytest

from local.services import minio
from sluice.cli.airflow_api import AirflowError
from sluice.cli.trace import Asked, Batches, show_batches, show_trace
from sluice.core.offsets.ranges import OffsetRanges
from sluice.trace.rows import Absence
from tests.integration.rig import DAG, SPEC, Rig, Run
from tests.support import airflow_calls

STEPS = [
    "provision_topic",
    "ensure_consumer",
    "produce",
    "wait_for_publish",
    "validate",
    "audit",
    "emit_asset_event",
]
FEWER_PARTITIONS = 4
# Rows of the second object that cannot be what their header says.
SHORT, MISDATED = 10, 20


def test_a_mixed_load_on_a_topic_that_had_fewer_partitions(rig: Rig) -> None:
    """Good, malformed and no rows at all, between records of others; again with a limit that they exceed."""
    rig.reset()
    rig.create_topic(FEWER_PARTITIONS)
    good = rig.trips(1)[0]
    foreign = [b"garbage", None, b"", (good or b"") + b"\x00"]
    rig.send({0: [foreign[0], good, foreign[1]], 1: [foreign[2]], 3: [foreign[3]]})
    rows = rig.slice(2200, 200)
    rows[SHORT] = "1,2,3"
    rows[MISDATED] = rows[MISDATED].replace("2018", "201x")
    newer = [row + ",2.5,surprise" for row in rows]
    newer[30] = ",".join(["", *rows[30].split(",")[1:3], "", *rows[30].split(",")[4:], "", ""])
    whole = rig.put("mixed-1-whole.csv", rig.slice(0, 1200))
    odd = rig.put("mixed-2-odd.csv", newer, rig.sample[0] + ",congestion_surcharge,new_column")
    keys = [whole, odd, rig.put("mixed-3-header-only.csv", [])]

    run = rig.load(objects=keys, max_quarantined_percent=2)
    assert (run.state, run.tasks) == ("success", dict.fromkeys(STEPS, "success"))
    assert len(rig.bounds()) == SPEC.topic.partitions
    rig.assert_exact()
    first, second, none = run.sources
    assert rig.rows_of(first) == list(range(1200))
    assert rig.rows_of(second) == [n for n in range(200) if n not in (SHORT, MISDATED)]
    assert rig.rows_of(none) == []
    assert_verified(rig, run, source_rows=1400, published=1398)
    assert_quarantined(rig, second, odd)
    undecodable = [r["value"] for r in rig.quarantine() if r["stage"] == "consumer"]
    assert sorted(undecodable, key=str) == sorted(foreign, key=str)
    assert_columns(rig, second)
    rig.assert_batches()
    assert_traced(rig, run, second, odd, newer)

    same = rig.load(objects=keys, max_quarantined_percent=0.1)
    assert (same.state, same.sources, same.xcom("validate")["verified_before"]) == ("success", [], 3)
    again = rig.load(objects=keys, max_quarantined_percent=0.1, verify_again=True)
    assert (again.state, again.tasks["validate"]) == ("failed", "failed")
    assert "2 of 1400 rows" in again.log("validate")
    assert again.sources == run.sources


def assert_verified(rig: Rig, run: Run, **numbers: int) -> None:
    """By the load's proof, its audit, and the event of its asset."""
    proof = run.xcom("validate")
    assert proof["status"] == "passed"
    assert {name: proof[name] for name in numbers} == numbers
    audit = run.xcom("audit")
    assert audit["objects"] > 0
    assert audit["delete_markers"] == 0
    events = rig.airflow.request(
        "GET", "/assets/events", params={"source_dag_id": DAG, "order_by": "-timestamp"}
    )
    (extra,) = [e["extra"] for e in events["asset_events"] if e["source_run_id"] == run.run_id]
    assert "passed" in str(extra)


def assert_quarantined(rig: Rig, source: str, key: str) -> None:
    """Each malformed row with its line, its bytes and the reason."""
    quarantined = rig.quarantined(source)
    assert sorted(quarantined) == [SHORT, MISDATED]
    short, misdated = quarantined[SHORT], quarantined[MISDATED]
    assert (short["line"], short["object"]) == (SHORT + 2, f"s3://source/{key}")
    assert short["value"] == b"1,2,3,2.5,surprise"
    assert {"5", "19"} <= set(short["reason"].split()), short["reason"]
    assert "tpep_pickup_datetime" in misdated["reason"]


def assert_traced(rig: Rig, run: Run, source: str, key: str, rows: list[str]) -> None:
    """Rows of an object to their lines, which are read as a person reads them, and back."""
    uri, trace = f"s3://source/{key}", rig.trace()
    lines = rig.stack.admin_s3().get_object(Bucket="source", Key=key)["Body"].read().decode().split("\n")
    places = rig.places(source)
    for row in (0, 29, 199):
        partition, offset = places[row]
        found = trace.offset(partition, offset)
        assert found == trace.row(source, row)
        assert found.source is not None
        assert (found.source.identity["object"], found.source.source_id) == (uri, source)
        assert (found.source.planned_by, found.source.sent_by) == (run.run_id, run.run_id)
        assert found.row == row
        assert found.line is not None
        assert lines[found.line - 1] == rows[row]
        (place,) = found.places
        assert place.batch is not None
        assert offset in place.batch.ranges[partition]
        assert place.snapshot_id == place.batch.snapshot_id
        ids = [file["file_path"] for file in rig.named().inspect.files().to_pylist()]
        assert place.file in ids
    short = trace.row(source, SHORT)
    assert (short.places[0].where, lines[(short.line or 0) - 1]) == ("quarantine", rows[SHORT])
    beyond = trace.row(source, len(rows)).absent
    assert beyond is not None
    assert beyond.why is Absence.NO_ROW
    back = trace.source(uri)
    assert back.source == found.source
    assert back.offsets == OffsetRanges.of(
        {p: [(o, o + 1) for q, o in places.values() if q == p] for p, _ in places.values()}
    )
    assert back.rows == len(places)
    assert sorted((row.row, row.line) for row in back.rejected) == [
        (SHORT, SHORT + 2),
        (MISDATED, MISDATED + 2),
    ]
    assert show_batches(rig.stack, Batches("nyc_taxi", limit=5)) == 0
    for asked in (
        Asked("nyc_taxi", partition, offset),
        Asked("nyc_taxi", source=source, row=SHORT),
        Asked("nyc_taxi", object=uri),
    ):
        assert show_trace(rig.stack, asked) == 0


def assert_columns(rig: Rig, source: str) -> None:
    """A column that the table lacks is kept beside, one that only some objects have has its own place, and
    what is empty is null."""
    scan = rig.table().scan(row_filter=f"_source_id = '{source}' and _source_row in (29, 30)").to_arrow()
    by_row = {row["_source_row"]: row for row in scan.to_pylist()}
    assert dict(by_row[29]["other_columns"]) == {"new_column": "surprise"}
    assert by_row[29]["congestion_surcharge"] == 2.5
    empty = by_row[30]
    assert (empty["VendorID"], empty["passenger_count"], empty["other_columns"]) == (None,) * 3


def test_two_runs_at_once_share_an_object_and_every_task_cleared_changes_nothing(rig: Rig) -> None:
    shared = rig.put("at-once-1-shared.csv", rig.slice(1500, 400))
    lines = "\n".join([rig.sample[0], *rig.slice(1900, 250)])
    own = rig.put_bytes("at-once-2-own.csv.gz", gzip.compress(lines.encode()))
    runs = [rig.start(objects=[shared]), rig.start(objects=[shared, own])]
    finished = [rig.finish(run) for run in runs]
    assert [run.state for run in finished] == ["success", "success"]
    # Each run verifies the shared object, unless the other had done so when it began.
    sources = [(finished[0].sources or finished[1].sources)[0], finished[1].sources[-1]]
    known = [run.xcom("produce")["verified_before"] for run in finished]
    assert finished[0].sources == sources[known[0] : 1], "one version of an object is one source"
    assert finished[1].sources == sources[known[1] :]
    assert [len(rig.rows_of(source)) for source in sources] == [400, 250]
    rig.assert_exact()
    topic, rows = rig.bounds(), len(rig.record_offsets())
    airflow_calls.clear(rig.airflow, DAG, runs[1], STEPS)
    cleared = rig.finish(runs[1])
    assert (cleared.state, cleared.sources) == ("success", finished[1].sources)
    assert (rig.bounds(), len(rig.record_offsets())) == (topic, rows)


def test_an_object_that_is_cut_off_is_red_and_named_and_publishes_nothing(rig: Rig) -> None:
    rig.ensure_stream()
    rig.wait_for_everything()
    before, rows = rig.bounds(), len(rig.record_offsets())
    whole = gzip.compress("\n".join([rig.sample[0], *rig.slice(0, 3000)]).encode())
    run = rig.load(objects=[rig.put_bytes("cut.csv.gz", whole[: len(whole) // 2])])
    assert (run.state, run.tasks["produce"]) == ("failed", "failed")
    assert rig.attempts(run.run_id, "produce") == 1, "another attempt cannot help"
    assert "cut.csv.gz" in run.log("produce")
    assert (rig.bounds(), len(rig.record_offsets())) == (before, rows)


@pytest.mark.parametrize(
    "conf",
    [
        {"source_prefix": "/absolute"},
        {"objects": ["picture.png"]},
        {"max_quarantined_percent": 101},
        {"publish_timeout_minutes": 0},
    ],
)
def test_a_bad_value_is_refused_before_anything_runs(conf: dict[str, object], rig: Rig) -> None:
    with pytest.raises(AirflowError) as refusal:
        rig.start(**conf)
    assert refusal.value.status == 400
    assert next(iter(conf)) in str(refusal.value)


def test_one_batch_over_all_partitions_stays_within_its_budget(rig: Rig) -> None:
    rig.ensure_stream()
    rig.wait_for_everything()

    def versions() -> tuple[int, int]:
        lister = rig.stack.admin_s3().get_paginator("list_object_versions")
        pages = list(lister.paginate(Bucket="warehouse", Prefix="lake/"))
        found = [(len(page.get("Versions", [])), len(page.get("DeleteMarkers", []))) for page in pages]
        return sum(v for v, _ in found), sum(m for _, m in found)

    (versions_before, markers_before), calls_before = versions(), minio.requests(rig.stack.context)
    before = rig.metadata_location()
    rig.send({partition: rig.trips(300) for partition in range(SPEC.topic.partitions)})
    rig.wait_for_commit(before)
    calls_after, (versions_after, markers_after) = minio.requests(rig.stack.context), versions()
    calls = {api: calls_after[api] - calls_before.get(api, 0) for api in calls_after}
    spent = {api: n for api, n in calls.items() if n and not api.lower().startswith("listobject")}
    print(f"one batch of 10 partitions: {sum(spent.values())} S3 calls {spent}")
    assert versions_after - versions_before <= SPEC.budget.versions_per_batch
    assert markers_after == markers_before == 0
    assert 0 < sum(spent.values()) <= SPEC.budget.s3_calls_per_batch
    rig.wait_for_everything()
    rig.assert_exact()
