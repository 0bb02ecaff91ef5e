"""Faults of queries: a record dated ahead. On the ISP stream, which runs beside the stream under test."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta

from sluice.clients.lake.results.positions import QueryPositions, late_rows, read_positions
from sluice.config import streams
from sluice.queries.compare import Aggregates
from sluice.queries.recount import recount
from tests.drills.drill import Drill, DrillContext, Failed
from tests.support.stream import StreamUnderTest

STREAM, QUERY = "isp_hits", "windows"
AHEAD = timedelta(hours=20)
LOAD_ROWS = 2_000
HITS = 50
# Only the drill's hits have it: the generator's first zipcodes are others, and it counts to 99990.
ZIPCODE = "99999"
LOAD_SECONDS = 600.0
COUNT_SECONDS = 180.0


def send_a_hit_dated_ahead(context: DrillContext) -> None:
    """After a load, so that the queries have a watermark."""
    queried = _start(context)
    _load(context, {"rows": LOAD_ROWS})
    context.state["before"] = _position(queried)
    context.record_injection()
    queried.send({0: [hit(f"drill-{time.time_ns()}", datetime.now(UTC) + AHEAD)]})


def _start(context: DrillContext) -> StreamUnderTest:
    """The stream with its queries; after the drill its DAGs and programs are as they were."""
    queried = StreamUnderTest(context.stream.stack, streams.load(STREAM))
    context.state["queried"] = queried
    for component in queried.spec.components.values():
        if not queried.is_going(component.program):
            context.cleanup.callback(queried.end, component.program)
    for dag in (queried.loading, queried.supervision):
        context.unpause(dag)
    return queried


def _load(context: DrillContext, params: dict[str, object]) -> None:
    queried: StreamUnderTest = context.state["queried"]
    run = queried.airflow.trigger(queried.loading, params)
    context.wait_for_success(queried.loading, run, LOAD_SECONDS)


def hit(hit_id: str, at: datetime) -> bytes:
    """A valid record."""
    fields = {
        "hit_id": hit_id,
        "hittime": at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "zipcode": ZIPCODE,
        "isp": "Drill",
        "user_id": "drill",
    }
    return json.dumps(fields).encode()


def _position(queried: StreamUnderTest) -> QueryPositions:
    table = queried.lake.table(queried.spec.queries_table)
    found = read_positions(table, queried.spec.queries)
    if found is None:
        raise Failed(f"the queries of {STREAM} have no state after a load")
    return found


def detected_by_early_rows(context: DrillContext) -> tuple[float, str] | None:
    """The query's committed progress says that it left out the record."""
    before, position = context.state["before"], _position(context.state["queried"])
    early = position.states[QUERY].early_rows - before.states[QUERY].early_rows
    if early > 1:
        raise Failed(f"query {QUERY} left out {early} early rows; one was sent")
    return (time.time(), "early_rows") if early else None


def check_that_hits_of_now_are_counted(context: DrillContext) -> None:
    """All of them, none as late; and a load after them finds every sink as the lake is."""
    queried: StreamUnderTest = context.state["queried"]
    now = datetime.now(UTC).replace(microsecond=0)
    late = _position(queried).states[QUERY].late_rows
    queried.send_spread([hit(f"drill-{time.time_ns()}-{number}", now) for number in range(HITS)])
    ends = {p: after for p, (first, after) in queried.bounds().items() if after > first}

    def counted() -> QueryPositions | None:
        position = _position(queried)
        return position if all(position.ends.get(p, 0) >= end for p, end in ends.items()) else None

    position = context.wait_for(f"the queries at {ends}", counted, COUNT_SECONDS)
    check_counts(_recount(queried, position, now), now, position.states[QUERY].late_rows - late)
    # Its windows are those of the hits, too, so that compare_sinks compares them in every sink.
    begin = now - timedelta(hours=1)
    _load(context, {"rows": LOAD_ROWS, "start_time": f"{begin:%Y-%m-%dT%H:%M:%SZ}"})
    context.say(f"{HITS} hits of now counted, none late; every sink of {STREAM} is as the lake")


def _recount(queried: StreamUnderTest, position: QueryPositions, at: datetime) -> Aggregates:
    query, source = queried.spec.queries[QUERY], position.states[QUERY].source_snapshot_id
    if source is None:
        raise Failed(f"query {QUERY} of {STREAM} has counted nothing")
    late = late_rows(queried.lake.table(queried.spec.queries_table), position, QUERY)
    starts = _starts(at)
    return recount(queried.table(), source, query, late, (starts[0], starts[-1]))


def _starts(at: datetime) -> list[int]:
    window = streams.load(STREAM).queries[QUERY].window
    if window is None:
        raise Failed(f"query {QUERY} of {STREAM} has no windows")
    return window.starts(int(at.timestamp()))


def check_counts(results: Aggregates, at: datetime, late: int) -> None:
    """`results`: of the lake, in the windows of `at`; `late`: rows since then. Raises Failed."""
    if late:
        raise Failed(f"{late} rows were late after a record dated {AHEAD} ahead")
    for start in _starts(at):
        key = f"{ZIPCODE}|{datetime.fromtimestamp(start, UTC):%Y-%m-%dT%H:%M:%SZ}"
        # An earlier drill may have sent hits to these windows.
        found = results.get(key, (0,))[0]
        if found < HITS:
            raise Failed(f"result {key} of query {QUERY} is {found}, and {HITS} hits of now were sent")


DRILLS = [
    Drill(
        "record_dated_ahead",
        "A hit of the ISP stream dated 20 hours ahead, then hits of now: none is late",
        send_a_hit_dated_ahead,
        [detected_by_early_rows],
        afterwards=check_that_hits_of_now_are_counted,
    ),
]
