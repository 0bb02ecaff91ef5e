"""Requests and connections of a load of many objects, on a real bucket; without Spark."""

from __future__ import annotations

import logging
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest

from sluice.clients.s3.csv_head import CHUNK_BYTES
from sluice.clients.s3.objects import Bucket
from sluice.clients.s3.requests import S3_REQUESTS, at_once, connect
from sluice.ledger.documents import Ledger
from sluice.loads.planning.plan import LoadPlanner
from sluice.loads.sending import produced
from sluice.loads.sources.csv_object import select_objects
from tests.support.services import Services

if TYPE_CHECKING:
    from sluice.clients.kafka.admin import KafkaAdmin

OBJECTS = 40
PREFIX = "load_requests/"


class Kafka:
    def ends(self, topic: str) -> dict[int, int]:
        return {0: 5}


def test_an_object_is_planned_with_two_requests_and_no_connection_of_its_own(
    services: Services, caplog: pytest.LogCaptureFixture
) -> None:
    platform = services.stack.platform("airflow")
    # Larger than what is read of it.
    body = b"header\n" + b"1,2\n" * CHUNK_BYTES
    for number in range(OBJECTS):
        services.minio.put_object(Bucket=platform.source.bucket, Key=f"{PREFIX}{number:02d}.csv", Body=body)
    client, asked, again = connect(platform.s3), Counter[str](), Counter[str]()

    def count(request: Any, **_: Any) -> None:
        asked[request.method] += 1
        # botocore sends it a second time, too.
        again[request.method] += "attempt=1" not in str(request.headers["amz-sdk-request"])

    client.meta.events.register("before-send.s3", count)
    ledger = Ledger(client, f"{platform.lake.ledger}/requests", "nyc_taxi")
    bucket = Bucket(client, platform.source.bucket)
    with caplog.at_level(logging.DEBUG, "urllib3.connectionpool"):
        planner = LoadPlanner(ledger, cast("KafkaAdmin", Kafka()), "t", {"source_prefix": ""})
        plan = planner.pin("r", {"source_prefix": PREFIX}, partial(select_objects, ledger, bucket))
        # Besides: the listing, and the run's plan.
        expected = Counter(GET=OBJECTS + 2, PUT=OBJECTS + 1)
        # A PUT is sent again if its answer is late, and then what it made is looked at.
        late = again + Counter(GET=again["PUT"])
        assert expected <= asked <= expected + late
        connections = sum("Starting new" in record.message for record in caplog.records)
        assert connections <= S3_REQUESTS
    asked.clear()
    assert next(produced.pending(ledger, plan), None) is not None
    produced.complete(ledger, plan, {0: 50})
    # Besides: whether the first is pending, and the run's document.
    assert asked == Counter(GET=2, PUT=OBJECTS + 1)
    objects = bucket.resolve(PREFIX)
    asked.clear()
    assert at_once(objects, bucket.data_rows) == [CHUNK_BYTES] * OBJECTS
    assert asked == Counter(GET=OBJECTS)
