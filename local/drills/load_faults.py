"""Faults of a load's source: the same object is uploaded twice."""

from __future__ import annotations

import gzip
import time
from collections import Counter

from pyiceberg.expressions import In

from local.base import REPO
from local.drills.drill import Drill, DrillContext, Failed, moment
from local.drills.stream import StreamUnderTest
from local.stack import lake
from sluice.core.offsets.sources import source_id
from sluice.ledger.documents import Ledger
from sluice.ledger.keys import run_key

SAMPLE = REPO / "samples" / "nyc_taxi" / "taxi-data.csv.gz"
ROWS = 200
LOAD_SECONDS = 420.0


def sample_object() -> bytes:
    """A CSV of ROWS taxi rides."""
    return b"".join(gzip.decompress(SAMPLE.read_bytes()).splitlines(keepends=True)[: ROWS + 1])


def put(stream: StreamUnderTest, name: str) -> tuple[str, str]:
    """Upload the sample object; its key, and the id of its source."""
    bucket = stream.stack.platform("airflow").source.bucket
    key = f"{stream.spec.source_prefix}drills/{name}"
    answer = stream.stack.admin_s3().put_object(Bucket=bucket, Key=key, Body=sample_object())
    return key, source_id(bucket, key, answer["VersionId"])


def upload_again(context: DrillContext) -> None:
    """As an upstream job that is retried: loaded bytes come again under their key, and are loaded."""
    stream, name = context.stream, f"uploaded-twice-{time.time_ns()}.csv"
    key, first = put(stream, name)
    run = stream.airflow.trigger(stream.loading, {"objects": [key]})
    state = stream.airflow.wait(stream.loading, run, LOAD_SECONDS)
    if state != "success":
        raise Failed(f"the load of {key} before the injection was {state}")
    context.record_injection()
    _, again = put(stream, name)
    if again == first:
        raise Failed(f"the second upload of {key} is no version of its own")
    run = stream.airflow.trigger(stream.loading, {"objects": [key]})
    context.state |= {"key": key, "sources": (first, again), "run": run}


def detected_by_the_run(context: DrillContext) -> tuple[float, str] | None:
    """The second load's proof names the object, and which version its content is loaded as."""
    stream, run = context.stream, context.state["run"]
    proof = Ledger.open(stream.stack.platform("airflow"), stream.spec.name).get(run_key(run, "proof"))
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
    stream, run = context.stream, context.state["run"]
    state = stream.airflow.wait(stream.loading, run, LOAD_SECONDS)
    if state != "success":
        raise Failed(f"run {run} of {stream.loading} was {state}")
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
        "the same bytes uploaded again under a loaded key, and loaded again",
        upload_again,
        [detected_by_the_run],
        afterwards=check_that_no_row_is_there_twice,
        detect_seconds=LOAD_SECONDS,
    ),
]
