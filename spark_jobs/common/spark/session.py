"""Spark session wired to the lake.

The Spark session of a job, wired to the lake's catalog as one role.

Spark's settings for a process of queries that keep state.

One way to add columns that are computed once.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.model.spec.platform import CATALOG, Platform


def start(
    name: str, platform: Platform, partitions: int, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A session named ``name`` whose catalog ``lake`` is the platform's; it shuffles into ``partitions``;
    ``settings`` are more of Spark's, without secrets; they stand where the platform says otherwise.

    Master, memory, jars and addresses come from ``spark-defaults.conf`` (SPARK_CONF_DIR): a job is the same
    on a laptop and on a cluster. What is secret is set after the JVM has started, because everything that a
    builder is given stands in the JVM's argv; a catalog is opened at its first use, so it sees these values.
    """
    interrupt = signal.getsignal(signal.SIGINT)
    builder = SparkSession.builder.appName(name)
    for key, value in (settings or {}).items():
        builder = builder.config(key, value)
    spark = (
        builder.config(
            "spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        )
        .config("spark.sql.session.timeZone", "UTC")
        # A retried task would send its rows again; the attempt fails instead and the next one resumes.
        .config("spark.task.maxFailures", "1")
        .config("spark.speculation", "false")
        # What is shuffled here is one batch or one load: the topic's partitions are parallel enough.
        .config("spark.sql.shuffle.partitions", str(partitions))
        .getOrCreate()
    )
    # PySpark puts one of its own there, which ends the process amid a batch.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupt)
    said = {key: value for key, value in (settings or {}).items() if key.startswith("spark.sql.")}
    for key, value in (catalog_options(platform) | checkpoint_options(platform) | said).items():
        spark.conf.set(key, value)
    return spark


def checkpoint_options(platform: Platform) -> dict[str, str]:
    """Spark's configuration for checkpoints in the bucket (``s3a://``); nothing for those on a volume."""
    s3 = platform.s3
    if not platform.checkpoints.root.startswith("s3a://"):
        return {}
    options = {
        # Whole or not at all, and without the renaming and deleting that the usual one does.
        "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.internal.io.cloud."
        "AbortableStreamBasedCheckpointFileManager",
        "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "fs.s3a.access.key": s3.access_key,
        "fs.s3a.secret.key": s3.secret_key,
        "fs.s3a.endpoint.region": s3.region,
        "fs.s3a.path.style.access": str(s3.path_style).lower(),
    }
    return options | ({"fs.s3a.endpoint": s3.endpoint} if s3.endpoint else {})


def catalog_options(platform: Platform) -> dict[str, str]:
    """Spark's configuration of the Iceberg catalog: JDBC for the pointers, S3FileIO for the files."""
    lake, s3 = platform.lake, platform.s3
    options = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "jdbc",
        ".uri": lake.jdbc_uri,
        ".jdbc.user": lake.catalog_user,
        ".jdbc.password": lake.catalog_password,
        ".jdbc.schema-version": "V1",
        ".warehouse": lake.warehouse,
        ".io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        # A cached table is a stale snapshot: the driver would plan on yesterday's main.
        ".cache-enabled": "false",
        ".client.region": s3.region,
        ".s3.access-key-id": s3.access_key,
        ".s3.secret-access-key": s3.secret_key,
        ".s3.path-style-access": str(s3.path_style).lower(),
    }
    if s3.endpoint:
        options[".s3.endpoint"] = s3.endpoint
    return {f"spark.sql.catalog.{CATALOG}{key}": value for key, value in options.items()}


def tasks(spark: SparkSession, group: str | None = None) -> list[tuple[int, int]]:
    """The stages that run, and how many of their tasks have ended; of one job group (a streaming query's is
    its run id), or of all."""
    tracker = spark.sparkContext.statusTracker()
    if group is None:
        stages = tracker.getActiveStageIds()
    else:
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [stage for job in jobs if job and job.status == "RUNNING" for stage in job.stageIds]
    found = [(stage, tracker.getStageInfo(stage)) for stage in stages]
    return [(stage, info.numCompletedTasks) for stage, info in found if info is not None]


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


def computed(frame: DataFrame, **columns: Column) -> DataFrame:
    """``frame`` with more columns, each computed once for every row.

    After ``withColumn`` the optimizer puts a column's whole expression in place of every mention of it, in
    every filter too: a row would be decoded once for each of its fields, and the generated code outgrows
    what Java compiles. It does not look through a generator, so the columns come out of one.
    """
    made = F.struct(*[column.alias(name) for name, column in columns.items()])
    return frame.select("*", F.inline(F.array(made)))
