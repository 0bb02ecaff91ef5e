"""The rows of sources that are on the topic already."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Collection, Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from sluice.clients.kafka.consumers import topic_offsets
from sluice.config.platform import Platform
from sluice.config.stream import StreamSpec
from sluice.core.decoding.identity import identity
from sluice.core.offsets.deduplication import LoadedRows, Runs, loaded_from
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.offsets.topic_ranges import TopicRanges
from spark_jobs.common.kafka.read_ranges import read_ranges
from spark_jobs.common.lake.written.written_batch import runs_of

log = logging.getLogger(__name__)


def sent_rows(
    spark: SparkSession, spec: StreamSpec, platform: Platform, start_offsets: Mapping[str, Mapping[int, int]]
) -> LoadedRows:
    """Read the rows on the topic: source id -> partition -> ``sequence``.

    From the offsets of the sources' first plan on; rows that retention deleted are sent again, and the
    consumer flags them as duplicates.
    """
    bounds = topic_offsets(platform.kafka, spec.topic.name)
    starts = start_offsets.values()
    start = {
        partition: min(max(first, min(offsets.get(partition, first) for offsets in starts)), after)
        for partition, (first, after) in bounds.items()
    }
    ranges = TopicRanges.of(
        {spec.topic.name: OffsetRanges.from_ends(start, {p: after for p, (_, after) in bounds.items()})}
    )
    if not ranges:
        return LoadedRows()
    log.info("reading sent rows %s", ranges)
    sent = _rows_in(read_ranges(spark, platform.kafka, ranges), start_offsets)
    for source, sequences in sent.sources.items():
        log.info("rows already sent source=%s rows=%d sequences=%s", source, sequences.count, sequences)
    return sent


def _rows_in(records: DataFrame, sources: Collection[str]) -> LoadedRows:
    """The rows of these sources in records with the columns of Spark's Kafka source."""
    wanted = pa.array(sorted(sources), pa.string())

    def runs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = Runs()
        for batch in batches:
            partition, offset, key = batch.columns
            own = identity(key).columns(offset)
            rows = pa.table(own | {"_kafka_partition": partition, "_kafka_offset": offset})
            found.add(runs_of(rows.filter(pc.is_in(rows["_source_id"].cast(pa.string()), wanted))))
        yield pa.RecordBatch.from_pydict({"runs": pa.array([pickle.dumps(found.joined())])})

    rows = records.select("partition", "offset", "key").mapInArrow(runs, "runs binary").collect()
    # Written by our own tasks.
    return loaded_from(run for row in rows for run in pickle.loads(row["runs"]))  # noqa: S301
