"""The taxi stream's demo: the sample object, loaded."""

from __future__ import annotations

from botocore.exceptions import ClientError
from rich.console import Console

from local import evidence
from local.airflow_client import Airflow
from local.demo import figures as read
from local.demo.bucket import bucket_counts
from local.demo.clock import rounded
from local.demo.demo import Demo, Run
from local.demo.verdict import Figures
from local.errors import Problem
from local.paths import REPO
from local.progress import Board
from local.stack import Stack
from sluice.io.kafka import topic_offsets

STREAM = "nyc_taxi"
SAMPLE = REPO / "samples" / STREAM / "taxi-data.csv.gz"
KEY = f"{STREAM}/taxi-data.csv.gz"


class TaxiDemo(Demo):
    """29,999 rides of an object in the source bucket."""

    result = REPO / "build" / "demo.json"

    def __init__(self) -> None:
        super().__init__(STREAM)

    def prepare(self, stack: Stack, board: Board) -> None:
        with board.step("the sample, 29,999 taxi rides"):
            put_sample(stack)

    def ready(self, api: Airflow) -> None:
        # From now on the stream is supervised, also when the demo is over.
        for dag in (self.load, self.supervision):
            api.unpause(dag)

    def collect(self, stack: Stack, console: Console, run: Run) -> Figures:
        own = stack.platform("airflow")
        lake, quarantine = evidence.tables(stack, self.spec)
        topic = topic_offsets(stack.platform("reader").kafka, self.spec.topic.name)
        held = read.content(lake, quarantine, read.sample_id(stack, own.source.bucket, KEY), topic)
        objects, versions, markers = bucket_counts(stack, own.lake.warehouse)
        source_rows = read.source_rows(stack, own.source.bucket, KEY)
        return Figures(
            state=run.state,
            source_rows=source_rows,
            topic_records=evidence.total(topic.values()),
            lake_rows=held.lake_rows,
            quarantined=held.quarantined,
            of_source_rows=held.of_source_rows,
            of_source_quarantined=held.of_source_quarantined,
            gaps=held.gaps,
            duplicates=held.duplicates,
            objects=objects,
            versions=versions,
            delete_markers=markers,
            s3_calls=run.calls,
            seconds=rounded(run.took, run.began),
        )


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
