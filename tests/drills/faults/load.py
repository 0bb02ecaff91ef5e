"""Faults of a load's source: the same object is uploaded twice."""

from __future__ import annotations

import time
from collections import Counter

from pyiceberg.expressions import In

from local.stack import lake
from sluice.ledger.keys import run_key
from tests.drills import loads
from tests.drills.drill import Drill, DrillContext, Failed, moment
from tests.drills.loads import LOAD_SECONDS, ROWS


def upload_again(context: DrillContext) -> None:
    """As an upstream job that is retried: loaded bytes come again under their key, and are loaded."""
    stream, name = context.stream, f"uploaded-twice-{time.time_ns()}.csv"
    key, first = loads.put(stream, name)
    context.wait_for_success(stream.loading, loads.start(stream, key), LOAD_SECONDS)
    context.record_injection()
    _, again = loads.put(stream, name)
    if again == first:
        raise Failed(f"the second upload of {key} is no version of its own")
    context.state |= {"key": key, "sources": (first, again), "run": loads.start(stream, key)}


def detected_by_the_run(context: DrillContext) -> tuple[float, str] | None:
    """The second load's proof names the object, and which version its content is loaded as."""
    stream, run = context.stream, context.state["run"]
    proof = stream.stack.systems("airflow").ledger(stream.spec.name).get(run_key(run, "proof"))
    if proof is None:
        if stream.airflow.run(stream.loading, run)["state"] == "failed":
            raise Failed(f"run {run} of {stream.loading} failed")
        return None
    first, again = context.state["sources"]
    named = [(one["key"], one["source_id"], one["same_as"]) for one in proof["uploaded_again"]]
    if named != [(context.state["key"], again, first)]:
        raise Failed(f"run {run} names {named} as uploaded again, not {context.state['key']}")
    return moment(proof["at"]), "the run (uploaded_again)"


def check_that_no_row_is_there_twice(context: DrillContext) -> None:
    """And that the second run ended well."""
    stream = context.stream
    context.wait_for_success(stream.loading, context.state["run"], LOAD_SECONDS)
    first, again = context.state["sources"]
    table, _ = lake.tables(stream.stack, stream.spec)
    found = table.scan(In("_source_id", [first, again]), selected_fields=("_source_id", "_source_row"))
    counts = Counter((row["_source_id"], row["_source_row"]) for row in found.to_arrow().to_pylist())
    if counts != Counter((first, row) for row in range(ROWS)):
        by_source = dict(Counter(source for source, _ in counts.elements()))
        raise Failed(f"of {ROWS} rows of {context.state['key']} the table has, by source: {by_source}")
    context.say(f"{ROWS} rows of {context.state['key']}, each once, all of its first version")


DRILLS = [
    Drill(
        "object_uploaded_twice",
        "The same bytes uploaded again under a loaded key, and loaded again",
        upload_again,
        [detected_by_the_run],
        afterwards=check_that_no_row_is_there_twice,
        detect_seconds=LOAD_SECONDS,
    ),
]
