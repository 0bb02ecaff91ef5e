"""A clock that is set back under a table's writer: named, nothing lost, and over when the clock is right."""

from __future__ import annotations

import gzip
import re

from sluice.clients.s3.requests import split
from spark_jobs.common.lake.clock import ClockSetBack
from tests.support.lakehouse import Stream
from tests.support.raising import raising
from tests.support.services import Services

AHEAD_MS = 300_000
ON_REST_CATALOG: set[str] = set()


def ahead(services: Services, location: str) -> str:
    """A copy of a metadata file whose times are five minutes later: to it, every clock is set back."""
    bucket, key = split(location)
    text = gzip.decompress(services.minio.get_object(Bucket=bucket, Key=key)["Body"].read()).decode()
    times = r'("(?:last-updated-ms|timestamp-ms)"\s*:\s*)(\d+)'
    later = re.sub(times, lambda found: f"{found[1]}{int(found[2]) + AHEAD_MS}", text)
    assert later != text
    copy = key.replace(".gz.metadata.json", "-ahead.metadata.json")
    services.minio.put_object(Bucket=bucket, Key=copy, Body=later.encode())
    return f"s3://{bucket}/{copy}"


def test_a_clock_behind_the_table_is_named_and_nothing_is_lost(stream: Stream, services: Services) -> None:
    writer = stream.writer()
    consumption = stream.run(writer)
    stream.send(3)
    consumption.query.processAllAvailable()
    before = stream.metadata_location()
    stream.restore_catalog(ahead(services, before))
    stream.send(2)
    # The append to the branch, the publish (whose text has no times), and the lease.
    with raising(ClockSetBack, stream.spec.table, "Fix"):
        stream.await_end(consumption)
    writer.table.refresh()
    newest, earlier = list(writer.table.snapshots("main"))[:2]
    with raising(ClockSetBack, stream.spec.table, "Fix"):
        writer.table.change_refs({"main": newest.id}, {"main": earlier.id})
    with raising(ClockSetBack, stream.spec.table, "Fix"):
        stream.writer().acquire()
    stream.restore_catalog(before)
    stream.run(stream.writer()).query.stop()
    stream.assert_exact(5)
