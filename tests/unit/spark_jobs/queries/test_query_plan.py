"""What Spark planned for a batch over the lake, and from which batch a query goes on."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from sluice.config.query_definition import definition
from sluice.config.sections.query import Query
from sluice.config.sections.sink import Sink
from sluice.core.queries.progress import QueryState
from spark_jobs.common.queries.recovery import last_started_batch
from spark_jobs.common.spark.offset_log import Plan, iceberg_offset, plan_of_all_files, read
from tests.support.plans import Plans
from tests.support.raising import raising

ABOUT = json.dumps({"batchWatermarkMs": 600_000, "batchTimestampMs": 1, "conf": {}})
OFFSET = {"version": 1, "snapshot_id": 77, "position": 2, "scan_all_files": False}


def test_a_plan_names_the_newest_snapshot_and_how_much_of_it() -> None:
    plans: Any = Plans("v1", ABOUT, json.dumps(OFFSET))
    assert read(plans, 7) == Plan(77, 2, 600_000)


def test_a_first_batch_is_planned_with_all_files_of_a_snapshot() -> None:
    plans: Any = Plans(*plan_of_all_files(ABOUT, 77, 12))
    assert read(plans, 7) == Plan(77, 12, 600_000, all_files=True)
    assert json.loads(iceberg_offset(77, 0)) == OFFSET | {"position": 0, "scan_all_files": True}


def test_before_the_first_snapshot_there_is_none() -> None:
    nothing = OFFSET | {"snapshot_id": -1, "position": -1}
    plans: Any = Plans("v1", ABOUT, json.dumps(nothing))
    assert read(plans, 7) == Plan(None, 0, 600_000)


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["v1", ABOUT],
        ["v2", ABOUT, json.dumps(OFFSET)],
        ["v1", ABOUT, json.dumps(OFFSET | {"version": 2})],
        ["v1", ABOUT, json.dumps({key: OFFSET[key] for key in ("version", "snapshot_id", "position")})],
        ["v1", ABOUT, '{"isp-hits":{"0":7}}'],
        ["v1", "{}", json.dumps(OFFSET)],
        ["v1", ABOUT, json.dumps(OFFSET), json.dumps(OFFSET)],
        ["v1", ABOUT, "null"],
    ],
)
def test_another_form_is_refused_by_name(lines: list[str]) -> None:
    plans: Any = Plans(*lines)
    with raising(ValueError, "w3/offsets/7", "v1"):
        read(plans, 7)


QUERY = Query([Sink("console")], ["zipcode"], {"hits": "count"})
STATE = QueryState(definition(QUERY), batch_offset=10, batch=5)


@pytest.mark.parametrize(
    ("held", "batch"),
    [
        ({"a": 15, "b": 15}, 5),
        ({"a": 16, "b": 15}, 6),
        # Time alone passed in between: such batches have no number in a sink.
        ({"a": 19, "b": 15}, 9),
        ({"a": 14, "b": 15}, None),
        ({"a": None, "b": 15}, None),
        ({"a": None, "b": 16}, None),
    ],
)
def test_a_query_goes_on_from_its_newest_batch_unless_a_sink_lacks_some(
    held: dict[str, int | None], batch: int | None
) -> None:
    assert last_started_batch("hits", STATE, held, QUERY) == batch


def test_all_groups_come_with_the_next_batch_of_a_complete_one() -> None:
    complete = replace(QUERY, mode="complete")
    assert last_started_batch("hits", STATE, {"a": 10, "b": 15}, complete) == 5


@pytest.mark.parametrize("before", [None, 9])
def test_a_sink_without_the_first_batch_of_a_rebuild_may_have_what_that_removed(before: int | None) -> None:
    complete = replace(QUERY, mode="complete")
    assert last_started_batch("hits", STATE, {"a": before, "b": 15}, complete) is None


@pytest.mark.parametrize(("held", "batch"), [({"a": None}, -1), ({"a": 10}, 0), ({"a": 9}, -1)])
def test_before_the_first_batch_no_sink_lacks_any(held: dict[str, int | None], batch: int) -> None:
    assert last_started_batch("hits", QueryState(definition(QUERY), batch_offset=10), held, QUERY) == batch


def test_rows_that_a_sink_lacks_are_nobodys_to_send_again() -> None:
    rows = Query([Sink("files", prefix="f/")], ["zipcode"], mode="append")
    with raising(LookupError, "hits", "batch 15", "a at 12"):
        last_started_batch("hits", STATE, {"a": 12}, rows)
    assert last_started_batch("hits", STATE, {"a": 16}, rows) == 6
