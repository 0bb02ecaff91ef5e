"""Spark's settings for a process of queries that keep state."""

from __future__ import annotations

from sluice.model.spec.platform import CATALOG

# State lies on disk and not in the heap, and a batch uploads what changed and not all of it. The source
# notes where it began through the table's own file IO: in the bucket or in a folder, as its checkpoint lies.
SETTINGS = {
    "spark.master": "local[2]",
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state."
    "RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    f"spark.sql.catalog.{CATALOG}.io-impl": "org.apache.iceberg.io.ResolvingFileIO",
}
# Into which a query shuffles, and its state is divided; a checkpoint keeps the number that it began with.
PARTITIONS = 4
