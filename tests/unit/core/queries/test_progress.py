"""Where queries stand, told and read back; what is rebuilt, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from sluice.config import query_definition
from sluice.config.query_definition import definition
from sluice.config.reading.toml import ConfigError
from sluice.config.sections.query import Query, TimeWindow
from sluice.config.sections.sink import Sink
from sluice.core.queries import progress
from sluice.core.queries.progress import MAX_CHECKPOINTS, QueryState
from tests.support.raising import raising

QUERY = Query([Sink("console")], ["zipcode"], {"hits": "count"}, "hittime", TimeWindow(10, 5, 2), 10)
STATE = QueryState(
    definition(QUERY),
    batch_offset=3,
    batch=4,
    source_snapshot_id=99,
    source_snapshot_at=5,
    watermark=6,
    late_rows=7,
    early_rows=9,
    checkpoints=["w2_a"],
    ends={"0": 8},
    types={"zipcode": "string", "hittime": "timestamp"},
)


def test_what_is_told_is_read_back() -> None:
    told = progress.summary("batch", "isp_hits", 2, {"windows": STATE})
    assert query_definition.read([{}, told, {"sluice.queries": "{}"}], {"windows": QUERY}, "queries.x") == {
        "windows": STATE
    }
    assert STATE.number == 7


def test_a_state_of_before_early_rows_were_left_out_is_continued() -> None:
    told = progress.summary("batch", "isp_hits", 2, {"windows": STATE})
    recorded = json.loads(told["sluice.queries"])
    del recorded["windows"]["early_rows"]
    before = {"sluice.queries": json.dumps(recorded)}
    assert query_definition.read([before], {"windows": QUERY}, "queries.x") == {
        "windows": replace(STATE, early_rows=0)
    }


def test_a_state_of_before_types_were_kept_is_of_those_that_there_are() -> None:
    told = progress.summary("batch", "isp_hits", 2, {"windows": STATE})
    recorded = json.loads(told["sluice.queries"])
    del recorded["windows"]["types"]
    before = query_definition.read(
        [{"sluice.queries": json.dumps(recorded)}], {"windows": QUERY}, "queries.x"
    )["windows"]
    assert before == replace(STATE, types={})
    assert not before.has_other_types({"zipcode": "bigint"})


def test_a_state_of_an_int_is_none_of_a_bigint() -> None:
    state = replace(STATE, types={"zipcode": "int"})
    assert state.has_other_types({"zipcode": "bigint"})
    assert not state.has_other_types({"zipcode": "int"})
    assert state.rebuild("w5_a", 11).types == {}, "those of its first batch"


def test_a_query_that_was_not_there_has_counted_nothing() -> None:
    assert query_definition.read([], {"windows": QUERY}, "queries.x") == {
        "windows": QueryState(definition(QUERY))
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"group_by": ["isp"]},
        {"watermark_minutes": 11},
        {"window": TimeWindow(10, 10)},
        {"aggregates": {"n": "count"}},
    ],
)
def test_a_query_declared_otherwise_is_refused(changes: dict[str, Any]) -> None:
    told = progress.summary("batch", "isp_hits", 2, {"windows": STATE})
    with raising(ConfigError, "windows"):
        query_definition.read([told], {"windows": replace(QUERY, **changes)}, "queries.x")


def test_another_trigger_or_sink_is_no_other_query() -> None:
    other = replace(QUERY, trigger_seconds=99, sinks=[Sink("memory")])
    assert definition(other) == definition(QUERY)


def test_the_order_of_wheres_values_is_no_other_query() -> None:
    ordered, reordered, other = (
        definition(replace(QUERY, where={"isp": values})) for values in (["a", "b"], ["b", "a"], ["a", "c"])
    )
    assert ordered == reordered
    assert ordered != other


def test_holders_are_the_latest_writers_and_the_publisher() -> None:
    state = STATE
    for epoch in range(3, 40):
        state = state.acquired(f"w{epoch}_a")
    assert state.checkpoints[:3] == ["w39_a", "w38_a", "w37_a"]
    assert state.checkpoints[-1] == "w2_a"
    assert len(state.checkpoints) == MAX_CHECKPOINTS + 1
    assert QueryState(definition(QUERY)).acquired("w1_a").checkpoints == ["w1_a"]


def test_a_rebuild_begins_above_every_number() -> None:
    rebuild = STATE.rebuild("w5_a", 11)
    assert (
        rebuild.batch_offset,
        rebuild.batch,
        rebuild.number,
        rebuild.checkpoints,
        rebuild.source_snapshot_id,
    ) == (
        12,
        -1,
        11,
        ["w5_a"],
        None,
    )
