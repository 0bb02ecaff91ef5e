"""The demo itself, from `up` to build/demo.json."""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError
from rich.console import Console
from rich.table import Table

from local import evidence
from local.airflow_client import Airflow
from local.demo import figures as read
from local.demo.follow import failures, follow, seconds
from local.demo.verdict import Figures, complaints
from local.errors import Problem
from local.home import write_private
from local.paths import REPO
from local.progress import Board
from local.screen import screen
from local.services import airflow as service
from local.stack import Stack
from sluice.model import stream
from spark_jobs.common.topic import watermarks

STREAM = "nyc_taxi"
DAG = "nyc_taxi_load"
SUPERVISION = "nyc_taxi_stream"
SAMPLE = REPO / "samples" / STREAM / "taxi-data.csv.gz"
KEY = f"{STREAM}/taxi-data.csv.gz"
RESULT = REPO / "build" / "demo.json"
LIMIT_SECONDS = 900.0


def main(stack: Stack) -> int:
    """Runs the demo; 0 when everything is as it must be, else 1 with the reasons on stderr.

    Raises Problem when the stack does not come up or the sample cannot be stored.
    """
    console = screen()
    began = time.monotonic()
    took: dict[str, float] = {}
    with Board() as board:
        stack.up(board)
        took["up"] = time.monotonic() - began
        with board.step("the sample, 29,999 taxi rides"):
            put_sample(stack)
        api = stack.airflow()
        with board.step(f"Airflow reads {DAG} and {SUPERVISION}"):
            # From now on the stream is supervised, also when the demo is over.
            for dag in (DAG, SUPERVISION):
                api.wait_for_dag(dag)
                api.unpause(dag)
    calls_before = read.s3_calls(stack)
    loading = time.monotonic()
    run_id = api.trigger(DAG, run_id=f"demo-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    console.print(f"run {run_id} of {DAG}: {run_url(stack, run_id)}", highlight=False, soft_wrap=True)
    state, tasks = follow(api, DAG, run_id, console, LIMIT_SECONDS)
    took["load"] = time.monotonic() - loading
    took |= {task["task_id"]: seconds(task, datetime.now(UTC)) for task in tasks}
    calls = read.s3_calls(stack)
    spent = None if calls is None or calls_before is None else calls - calls_before
    if state != "success":
        return _failed(api, run_id, state, tasks)
    figures = collect(stack, state, spent, took, began)
    show(console, stack, figures)
    write_private(RESULT, json.dumps(figures.to_json(), indent=2) + "\n")
    found = complaints(figures)
    for complaint in found:
        print(f"sluice: {complaint}", file=sys.stderr)
    return 1 if found else 0


def put_sample(stack: Stack) -> None:
    """Stores the sample unless the same content is there. Raises Problem when the bucket refuses it."""
    content = SAMPLE.read_bytes()
    bucket = stack.platform("airflow").source.bucket
    client = stack.s3("airflow") if stack.context.external is not None else stack.admin_s3()
    try:
        if client.get_object(Bucket=bucket, Key=KEY)["Body"].read() == content:
            return
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("404", "NoSuchKey"):
            raise Problem(f"s3://{bucket}/{KEY} cannot be looked at: {error}") from error
    try:
        client.put_object(Bucket=bucket, Key=KEY, Body=content)
    except ClientError as error:
        raise Problem(
            f"s3://{bucket}/{KEY} cannot be written ({error}): put {SAMPLE} there yourself"
        ) from error


def collect(stack: Stack, state: str, calls: int | None, took: dict[str, float], began: float) -> Figures:
    """Reads every figure from the system that owns it."""
    spec = stream.load(STREAM)
    own = stack.platform("airflow")
    lake, quarantine = evidence.tables(stack, spec)
    topic = watermarks(stack.platform("reader").kafka, spec.topic.name)
    held = read.content(lake, quarantine, read.sample_id(stack, own.source.bucket, KEY))
    objects, versions, markers = read.bucket_counts(stack, own.lake.warehouse)
    source_rows = read.source_rows(stack, own.source.bucket, KEY)
    gaps = evidence.gaps(held.offsets, evidence.stream_starts(lake), topic)
    return Figures(
        state=state,
        source_rows=source_rows,
        topic_records=evidence.total(topic.values()),
        lake_rows=held.lake_rows,
        quarantined=held.quarantined,
        of_source_rows=held.of_source_rows,
        of_source_quarantined=held.of_source_quarantined,
        gaps=gaps,
        duplicates=evidence.duplicates(held.offsets) + held.repeated_source_rows,
        objects=objects,
        versions=versions,
        delete_markers=markers,
        s3_calls=calls,
        seconds={
            name: round(value, 1) for name, value in {**took, "total": time.monotonic() - began}.items()
        },
    )


def run_url(stack: Stack, run_id: str) -> str:
    return f"{service.url(stack.context)}/dags/{DAG}/runs/{run_id}"


def show(console: Console, stack: Stack, figures: Figures) -> None:
    """The figures, and the way into Airflow's UI."""
    table = Table("what", "figure", "read from", title=f"{DAG}: {figures.state}", title_justify="left")
    rows: list[tuple[str, int | None, str]] = [
        ("source rows", figures.source_rows, "the source object"),
        ("topic records", figures.topic_records, "Kafka's begin and end offsets"),
        ("lake rows", figures.lake_rows, "the table's branch main, by PyIceberg"),
        ("quarantined", figures.quarantined, "the quarantine table, by PyIceberg"),
        ("gaps", figures.gaps, "topic offsets against coordinates in the lake"),
        ("duplicates", figures.duplicates, "coordinates and source rows in the lake"),
        ("objects", figures.objects, "the bucket, under the lake's prefix"),
        ("versions", figures.versions, "the bucket, under the lake's prefix"),
        ("delete markers", figures.delete_markers, "the bucket, under the lake's prefix"),
        ("S3 calls of this load, by all", figures.s3_calls, "MinIO's own metrics"),
    ]
    for name, value, origin in rows:
        table.add_row(name, "not counted" if value is None else f"{value:,}", origin)
    table.add_section()
    for name, spent in figures.seconds.items():
        table.add_row(
            name, f"{spent:.1f} s", "the clock" if name in ("up", "load", "total") else "the task, in Airflow"
        )
    console.print(table)
    console.print(
        f"Airflow: {service.url(stack.context)}  user: {service.USER}  "
        f"password: {stack.secrets['airflow_operator']}",
        soft_wrap=True,
        highlight=False,
    )
    console.print(
        f"Figures: {RESULT.relative_to(REPO)}   Rows: make sql Q='select * from nyc_taxi limit 5'",  # noqa: S608
        soft_wrap=True,
        highlight=False,
    )


def _failed(api: Airflow, run_id: str, state: str, tasks: list[dict[str, Any]]) -> int:
    """Says why; and leaves no figures of an earlier run that could be taken for this one's."""
    RESULT.unlink(missing_ok=True)
    print(f"sluice: run {run_id} of {DAG} ended as {state!r}", file=sys.stderr)
    for text in failures(api, DAG, run_id, tasks):
        print(f"sluice: {text}", file=sys.stderr)
    return 1
