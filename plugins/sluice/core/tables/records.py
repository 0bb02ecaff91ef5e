"""A topic's record: its headers, and its columns in the stream's tables beside the decoded ones."""

from __future__ import annotations

# Where the record is on the topic.
KAFKA_COLUMNS = ("_kafka_partition", "_kafka_offset", "_kafka_timestamp")
# The row of a source that it is of.
IDENTITY = ("_source_id", "_source_row", "_source_base_offset")
# Columns of a rejected record, which is kept whole: the column -> that of Spark's Kafka source.
FROM_KAFKA = {
    "_kafka_partition": "partition",
    "_kafka_offset": "offset",
    "_kafka_timestamp": "timestamp",
    "_kafka_timestamp_type": "timestampType",
    "key": "key",
    "value": "value",
    "headers": "headers",
}
RECORD = (*FROM_KAFKA, *IDENTITY)
# As Kafka's client takes them.
Headers = list[tuple[str, str | bytes | None]]
