"""A consumer that acquires a stream's writer lease without Spark, and sleeps.

``python -m bench.compare.contenders.idle_consumer <stream>``. The lease: one snapshot with its properties,
and no rows.
"""

from __future__ import annotations

import signal
import sys
from contextlib import suppress

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError

from sluice.clients.databases import postgresql as _deadline  # noqa: F401 - registers the plugin of the catalog's URL
from sluice.clients.kafka.consumers import topic_offsets
from sluice.config import platform as platforms
from sluice.config import streams
from sluice.config.platform_sections import lake
from sluice.core.tables.summary import EPOCH, KIND, OFFSET_RANGES, STREAM, TOPIC, StreamPart
from spark_jobs.common.kafka.offsets import Topic


def acquire(name: str) -> None:
    """Create the stream's table, and record on ``main`` this writer's epoch and the topic's end offsets."""
    spec, platform = streams.load(name), platforms.load("consumer")
    properties = platform.lake.pyiceberg(platform.s3) | {"init_catalog_tables": "true"}
    catalog = SqlCatalog(lake.CATALOG, **properties)
    with suppress(NamespaceAlreadyExistsError):  # another stream's consumer was faster
        catalog.create_namespace("bench")
    rows = pa.schema([pa.field("_kafka_offset", pa.int64())])
    table = catalog.create_table_if_not_exists(spec.table, rows)
    snapshot = table.current_snapshot()
    properties = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
    ends = {p: after for p, (_, after) in topic_offsets(platform.kafka, spec.topic.name).items()}
    table.append(
        rows.empty_table(),
        snapshot_properties={
            KIND: "epoch-start",
            STREAM: name,
            TOPIC: spec.topic.name,
            EPOCH: str(int(properties.get(EPOCH, 0)) + 1),
            OFFSET_RANGES: "{}",
            **StreamPart(Topic(platform.kafka, spec.topic.name).id(), ends, ends).properties(),
        },
    )


if __name__ == "__main__":
    acquire(sys.argv[1])
    signal.sigwait({signal.SIGTERM})
