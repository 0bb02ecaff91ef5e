"""A load of a small object: the first of a new stack, that at the end of a drill, and those of its faults."""

from __future__ import annotations

import gzip

from local.base import REPO
from sluice.core.offsets.sources import source_id
from tests.support.stream import StreamUnderTest

SAMPLE = REPO / "samples" / "nyc_taxi" / "taxi-data.csv.gz"
ROWS = 200
LOAD_SECONDS = 420.0


def put(stream: StreamUnderTest, name: str) -> tuple[str, str]:
    """Upload a CSV of ROWS taxi rides; its key, and the id of its source."""
    body = b"".join(gzip.decompress(SAMPLE.read_bytes()).splitlines(keepends=True)[: ROWS + 1])
    bucket = stream.stack.platform("airflow").source.bucket
    key = f"{stream.spec.source_prefix}drills/{name}"
    answer = stream.stack.admin_s3().put_object(Bucket=bucket, Key=key, Body=body)
    return key, source_id(bucket, key, answer["VersionId"])


def start(stream: StreamUnderTest, key: str) -> str:
    """Trigger a load of the object; the run's id."""
    return stream.airflow.trigger(stream.loading, {"objects": [key]})
