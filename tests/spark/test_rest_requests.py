"""What a batch asks of a REST catalog: each request is a round trip, and its answer the whole metadata."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sluice.config.platform_sections.catalog import REST
from spark_jobs.common.consumer import writer
from spark_jobs.common.lake import writer_lease
from tests.support.catalog_proxy import CatalogProxy, through
from tests.support.lakehouse import Stream
from tests.support.services import Services

# Read to stage what the batch has, read to see whether the branches are where they were, and committed.
A_BATCH = {"GET": 2, "POST": 1}
BATCHES = 12


@pytest.fixture
def proxy(services: Services) -> Iterator[CatalogProxy]:
    services.minio, services.postgres  # noqa: B018
    with CatalogProxy(services.rest_catalog) as made:
        yield made


def test_a_batch_asks_for_the_same_however_many_were_before(
    spark: SparkSession,
    services: Services,
    proxy: CatalogProxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Snapshots expire in the commits that there are anyway.
    monkeypatch.setattr(writer_lease, "EXPIRY_INTERVAL", 4)
    stream = Stream(
        *(spark, services, "rest_requests", str(tmp_path)),
        catalog=REST,
        changed=lambda one: through(proxy.url, one),
    )
    try:
        running = stream.run(stream.writer())
        for number in range(BATCHES):
            proxy.requests()
            stream.send(1, partitions=1)
            running.query.processAllAvailable()
            asked = [one.split() for one in proxy.requests()]
            # The batches of the last while are recorded in the ledger, by a look at the table.
            recorded = {"GET": 1} if (number + 1) % writer.RECORD_INTERVAL == 0 else {}
            assert Counter(method for method, _ in asked) == Counter(A_BATCH) + Counter(recorded), number
            assert {path.rpartition("/")[2] for _, path in asked} == {"rest_requests"}
    finally:
        stream.stop()
