"""The faults of the drills, as far as none has to be injected."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from sluice.clients.lake.commits import Commit
from spark_jobs.isp_hits.transforms import FIELDS, REQUIRED
from tests.drills.drill import Failed
from tests.drills.faults import DRILLS, catalog, query, record
from tests.support.drills import context
from tests.support.raising import raising


def test_every_drill_has_detectors() -> None:
    assert all(drill.detected_by and drill.what for drill in DRILLS.values())


def test_a_record_of_another_producer_is_framed_as_confluents_serializers_do() -> None:
    assert record.in_confluents_format(b"body") == b"\x00\x00\x00\x00\x07body"


AT = datetime.fromtimestamp(1003.5, UTC)
BAD, TOMBSTONE, EARLIER = (0, 7, "bad"), (0, 8, "tombstone"), (0, 6, "of an earlier drill")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([EARLIER, BAD], None),
        ([BAD, EARLIER, TOMBSTONE, BAD], (1003.5, "quarantine")),
        ([BAD, (0, 8, None)], "(0, 8) is in the quarantine without a reason"),
    ],
)
def test_detected_by_quarantine(monkeypatch: pytest.MonkeyPatch, rows: list[Any], expected: Any) -> None:
    """Whatever the order of the table's columns."""
    found = [
        {"reason": reason, "_kafka_partition": partition, "quarantined_at": AT, "_kafka_offset": offset}
        for partition, offset, reason in rows
    ]
    monkeypatch.setattr(record.lake, "tables", lambda *_: (None, None))
    monkeypatch.setattr(record.lake, "read", lambda *_: [pa.RecordBatch.from_pylist(found)])
    made = context(stack=None, spec=None)
    made.state["offsets"] = {(0, 7), (0, 8)}
    if isinstance(expected, str):
        with raising(Failed, expected):
            record.detected_by_quarantine(made)
    else:
        assert record.detected_by_quarantine(made) == expected


@pytest.mark.parametrize(
    ("early", "expected"),
    [(2, None), (3, (1005.0, "early_rows")), (4, "left out 2 early rows; one was sent")],
)
def test_detected_by_early_rows(monkeypatch: pytest.MonkeyPatch, early: int, expected: Any) -> None:
    def position(rows: int) -> Any:
        return SimpleNamespace(states={"windows": SimpleNamespace(early_rows=rows)})

    monkeypatch.setattr(query.time, "time", lambda: 1005.0)
    monkeypatch.setattr(query, "_position", lambda queried: position(early))
    made = context()
    made.state |= {"before": position(2), "queried": None}
    if isinstance(expected, str):
        with raising(Failed, expected):
            query.detected_by_early_rows(made)
    else:
        assert query.detected_by_early_rows(made) == expected


def test_detected_by_the_epoch_that_continues_from_the_restored_table() -> None:
    commits = [
        Commit(1, 1001.0, "batch", 4),
        Commit(2, 1002.0, "epoch-start", 5),
        Commit(3, 1003.0, "batch", 5),
    ]
    for known, expected in ((commits[:1], None), (commits, (1002.0, "the writer (epoch 5)"))):
        made = context(commits=lambda since, known=known: known if since == 1000.0 else [])
        assert catalog.detected_by_new_epoch(made) == expected


@pytest.mark.parametrize(
    ("state", "failure"), [("success", ""), ("failed", "run r of taxi_maintenance was failed")]
)
def test_maintenance_in_a_drill_ends_paused_and_is_unpaused_afterwards_if_it_was(
    state: str, failure: str
) -> None:
    done: list[str] = []
    states = ["running", "success"]
    airflow = SimpleNamespace(
        wait_for_dag=lambda dag: None,
        is_paused=lambda dag: False,
        unpause=lambda dag: done.append("unpause"),
        pause=lambda dag: done.append("pause"),
        trigger=lambda dag: "r",
        wait=lambda dag, run, seconds: state,
    )
    runs = lambda dag: [{"state": states.pop(0)}, {"state": "failed"}]  # noqa: E731
    made = context(airflow=airflow, spec=SimpleNamespace(name="taxi"), runs=runs)
    made.sleep = lambda seconds: None
    if failure:
        with raising(Failed, failure):
            catalog.run_maintenance(made)
    else:
        catalog.run_maintenance(made)
        assert not states, "the scheduled run has ended"
    assert done == ["unpause", "pause"]
    made.cleanup.close()
    assert done == ["unpause", "pause", "unpause"]


NOW = datetime(2026, 3, 1, 10, 3, tzinfo=UTC)
COUNTED = {"99999|2026-03-01T09:57:00Z": (50,), "99999|2026-03-01T10:02:00Z": (51,)}


@pytest.mark.parametrize(
    ("results", "late", "failure"),
    [
        (COUNTED, 0, ""),
        (COUNTED, 3, "3 rows were late after a record dated 20:00:00 ahead"),
        (
            {**COUNTED, "99999|2026-03-01T09:57:00Z": (49,)},
            0,
            "99999|2026-03-01T09:57:00Z of query windows is 49",
        ),
        ({}, 0, "is 0, and 50 hits of now were sent"),
    ],
)
def test_hits_of_now_are_all_counted_and_none_is_late(
    results: dict[str, tuple[int, ...]], late: int, failure: str
) -> None:
    if failure:
        with raising(Failed, failure):
            query.check_counts(results, NOW, late)
    else:
        query.check_counts(results, NOW, late)


def test_a_drills_hit_is_a_hit() -> None:
    fields = json.loads(query.hit("x", NOW))
    assert set(REQUIRED) <= set(fields) <= set(FIELDS)
    assert datetime.fromisoformat(fields["hittime"]) == NOW
    assert re.fullmatch("[0-9]{5}", fields["zipcode"])


def test_a_drill_leaves_the_isp_stream_as_it_was() -> None:
    done: list[tuple[str, str]] = []
    states = {"stream-isp_hits": "STOPPED", "stream-isp_hits-queries": "RUNNING"}
    airflow = SimpleNamespace(
        wait_for_dag=lambda dag: None,
        is_paused=lambda dag: dag == "isp_hits_load",
        pause=lambda dag: done.append(("pause", dag)),
        unpause=lambda dag: done.append(("unpause", dag)),
    )
    supervisor = SimpleNamespace(
        getProcessInfo=lambda program: {"statename": states[program]},
        stopProcess=lambda program: done.append(("stop", program)),
    )
    daemon = SimpleNamespace(proxy=lambda: supervisor)
    made = context(airflow=airflow, stack=SimpleNamespace(airflow=lambda: airflow, daemon=daemon))
    query._start(made)
    assert done == [("unpause", "isp_hits_load")]
    states["stream-isp_hits"] = "RUNNING"
    made.cleanup.close()
    assert done[1:] == [("pause", "isp_hits_load"), ("stop", "stream-isp_hits")]


def test_the_metadata_file_with_the_highest_number_is_registered_once() -> None:
    """The newer of two with one number is registered: the other was refused."""
    s3 = SimpleNamespace(get_paginator=lambda name: SimpleNamespace(paginate=pages))
    keys = [("00009-z", 1), ("00010-a", 2), ("00010-b", 3), ("snap-99-x", 9)]

    def pages(**given: str) -> list[dict[str, Any]]:
        assert given == {"Bucket": "w", "Prefix": "lake/raw/taxi/metadata/"}
        ends = {name: ".avro" if name.startswith("snap") else ".metadata.json" for name, _ in keys}
        return [
            {"Contents": [{"Key": f"{given['Prefix']}{n}{ends[n]}", "LastModified": at}]} for n, at in keys
        ]

    registered: dict[str, str] = {}
    known = SimpleNamespace(register_table=registered.__setitem__)
    stack = SimpleNamespace(admin_s3=lambda: s3, lake=lambda role: SimpleNamespace(catalog=known))
    made = context(
        stack=stack, spec=SimpleNamespace(table="raw.taxi"), lake=SimpleNamespace(location=registered.get)
    )
    made.state["folder"] = "s3://w/lake/raw/taxi"
    for _ in range(2):
        catalog.register_the_table(made)
    assert registered == {"raw.taxi": "s3://w/lake/raw/taxi/metadata/00010-b.metadata.json"}
