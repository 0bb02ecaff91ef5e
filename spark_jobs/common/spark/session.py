"""The Spark session of a job, connected to the lake's catalog as one role."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any, cast

from pyspark.sql import SparkSession

from sluice.clients.jvm_proxies import JvmProxies, jvm_proxies
from sluice.clients.kafka.login.properties import java as java_of_kafka
from sluice.clients.proxies import proxy_of
from sluice.clients.s3.login import java
from sluice.config import platform as platforms
from sluice.config.platform import Platform
from sluice.config.platform_sections import glue
from sluice.config.platform_sections.catalog import REST
from sluice.config.platform_sections.glue import GLUE
from sluice.config.platform_sections.kafka import Kafka
from sluice.config.platform_sections.lake import CATALOG
from sluice.config.platform_sections.s3 import PLAIN_TEXT
from sluice.config.reading.files import write_private
from sluice.config.sections import cluster
from sluice.core.processes.environment import forgettable
from spark_jobs.common.spark.login import s3 as s3_login

log = logging.getLogger(__name__)

# The columns of its Kafka source with ``includeHeaders``.
KAFKA_RECORD = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int, headers array<struct<key: string, value: binary>>"
)

ANONYMOUS = "software.amazon.awssdk.auth.credentials.AnonymousCredentialsProvider"
# Arrow's own keeps 30 MB of each Python process.
ARROW_MEMORY = {"spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system"}
# What Spark keeps for its web page, which is off: by default the last 1,000 queries with their plans and
# 100,000 tasks, so a stream's memory would grow for its first hours.
RETAINED = {
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "20",
}


def start(
    name: str, platform: Platform, partitions: int, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Start a session with the platform's catalog ``lake`` that shuffles into ``partitions``.

    ``settings``: further ones without secrets; they override the platform's. Master, memory, jars and
    addresses come from ``spark-defaults.conf`` (SPARK_CONF_DIR).
    """
    began, interrupt = monotonic(), signal.getsignal(signal.SIGINT)
    write_executor_template()
    forget_variables(platform.role)
    proxies = jvm_proxies(platform)
    builder = SparkSession.builder.appName(name)
    for key, value in (RETAINED | proxies.executors | dict(settings or {})).items():
        builder = builder.config(key, value)
    spark = (
        builder.config(
            "spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        )
        .config("spark.sql.session.timeZone", "UTC")
        # A retried task would send its rows again; the attempt fails and the next one resumes.
        .config("spark.task.maxFailures", "1")
        .config("spark.speculation", "false")
        .config("spark.sql.shuffle.partitions", str(partitions))
        .getOrCreate()
    )
    # PySpark installs its own handler, which ends the process during a batch.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, interrupt)
    overrides = {key: value for key, value in (settings or {}).items() if key.startswith("spark.sql.")}
    # After the start, since the builder's options are in the JVM's argv and these hold secrets. A catalog is
    # opened at its first use, so they are in time.
    options = catalog_options(platform, s3_login.has_executors(spark)) | checkpoint_options(platform)
    options |= {f"spark.sql.catalog.{CATALOG}.{key}": value for key, value in proxies.catalog.items()}
    for key, value in (options | overrides).items():
        spark.conf.set(key, value)
    stay_with_endpoints(spark)
    go_through(spark, proxies)
    log_in_to_glue(spark, platform)
    s3_login.log_in(spark, platform)
    log_in_to_rest(spark, platform)
    log.info("Spark started seconds=%.1f", monotonic() - began)
    return spark


def forget_variables(role: str) -> None:
    """Remove what the platform file has been read with from this process's environment, which its JVM and
    that one's Python workers get. Not the producer's: its workers read the file themselves."""
    if role != "producer":
        for name in forgettable(platforms.variables(role)):
            os.environ.pop(name, None)


def write_executor_template(
    environ: Mapping[str, str] = os.environ, path: str = cluster.WRITTEN_TEMPLATE
) -> None:
    """On Kubernetes, for a role with an identity of its own: Spark reads the template from a file."""
    if template := environ.get(cluster.TEMPLATE_VARIABLE):
        write_private(Path(path), template)


def checkpoint_options(platform: Platform) -> dict[str, str]:
    """Spark's configuration for checkpoints in the bucket (``s3a://``); empty for those on a volume."""
    if not platform.checkpoints.in_bucket:
        return {}
    return {
        # Writes a file completely or not at all, without the default's renames and deletes.
        "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.internal.io.cloud."
        "AbortableStreamBasedCheckpointFileManager",
        **java.s3a(platform.s3),
    }


def kafka_options(kafka: Kafka) -> dict[str, str]:
    """The options of Spark's Kafka source and sink that connect them."""
    return {f"kafka.{key}": value for key, value in java_of_kafka(kafka).items()}


def kafka_source_options(kafka: Kafka) -> dict[str, str]:
    """The options of Spark's Kafka source: how it connects, and that it reads committed records with their
    headers in large fetches, fails if one is missing, and does not wait at a partition's end.

    After each fetch it asks for the log's end, on the connection where the next fetch waits for records
    already: by default for 500 ms, in each partition that is read to its end.
    """
    return {
        **kafka_options(kafka),
        "includeHeaders": "true",
        "failOnDataLoss": "true",
        "kafka.isolation.level": "read_committed",
        "kafka.max.poll.records": "20000",
        "kafka.max.partition.fetch.bytes": str(8 * 1024 * 1024),
        "kafka.fetch.max.wait.ms": "10",
    }


def catalog_options(platform: Platform, has_executors: bool = False) -> dict[str, str]:
    """Spark's configuration of the Iceberg catalog, with S3FileIO for the files. ``has_executors``: whether
    other JVMs open them, too."""
    s3 = platform.s3
    options = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".client.region": s3.region,
        **{f".{key}": value for key, value in (platform.lake.spark() | login(platform)).items()},
        ".io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        # Role maintenance deletes, late. If a commit's answer was lost, Iceberg deletes what main now uses.
        ".s3.delete-enabled": "false",
        # A cached table is a stale snapshot of main. A manifest never changes, and is read twice at once.
        ".cache-enabled": "false",
        ".io.manifest.cache-enabled": "true",
        ".io.manifest.cache.max-total-bytes": str(16 * 1024 * 1024),
        # PyIceberg's, as the others of S3; Java's client has one region for all that it asks.
        ".s3.region": s3.region,
        ".s3.path-style-access": str(s3.path_style).lower(),
    }
    if s3.endpoint:
        options[".s3.endpoint"] = s3.endpoint
    elif options[".client.region"] != s3.region:
        options[".s3.cross-region-access-enabled"] = "true"
    if platform.lake.vends:
        # A table without keys is not read with those that the machine itself may have.
        files = {"client.credentials-provider": ANONYMOUS, **java.sse(s3)}
        if s3.plain_text:
            files[PLAIN_TEXT] = "true"
    else:
        # PyIceberg's, of a job, are made of the same configuration.
        files = java.iceberg(s3, has_executors) | s3.properties()
    options |= {f".{key}": value for key, value in files.items()}
    return {f"spark.sql.catalog.{CATALOG}{key}": value for key, value in options.items()}


def login(platform: Platform) -> dict[str, str]:
    """Properties of the catalog for a client's certificate; none without one. Raises Refused for files that
    cannot be used."""
    if not platform.lake.catalog.sslcert:
        return {}
    # Imports the clients of catalogs, which not every process has.
    from sluice.clients.catalogs import login as catalog_login

    return catalog_login.java(platform.lake.catalog)


def log_in_to_glue(spark: SparkSession, platform: Platform) -> None:
    """Tell the JVM the login of a catalog in AWS Glue, in time if before its first use; no other catalog's.
    S3 has keys of its own among the catalog's options."""
    if platform.lake.catalog.type != GLUE:
        return
    system = cast("Any", spark._jvm).java.lang.System
    for name, value in glue.jvm_login(platform.lake.spark()).items():
        if value:
            system.setProperty(name, value)
        else:
            system.clearProperty(name)


def stay_with_endpoints(spark: SparkSession) -> None:
    """Let Java's own client follow no redirect, in time if before its first use: the login to Kafka asks for
    tokens by it, and would send the client's secret to wherever an answer 307 says."""
    cast("Any", spark._jvm).java.net.HttpURLConnection.setFollowRedirects(False)


def go_through(spark: SparkSession, proxies: JvmProxies) -> None:
    """Tell the JVM the proxies of the environment, in time if before its clients' first use. Raises
    ProxyUnusable for a login that executors would need."""
    if s3_login.has_executors(spark):
        proxies.check_executors()
    for name, value in {**proxies.system, **proxies.login}.items():
        cast("Any", spark._jvm).java.lang.System.setProperty(name, value)


def log_in_to_rest(spark: SparkSession, platform: Platform) -> None:
    """Give the JVM what encrypts connections to a REST catalog, in time if before its first use. Iceberg's
    client takes the JVM's own, so that others of the JVM's that have none have it too, with the system's CAs.

    Raises Refused for files that cannot be used, and what Python's client raises, which logs in first: it
    sends no secret to where a redirect leads, or a server's configuration without encryption. Java's does, so
    that it has its tokens from this process. Not through a proxy, which all of its requests go through; nor
    where keys of tables are renewed by JVMs on other machines.
    """
    catalog = platform.lake.catalog
    if catalog.type != REST:
        return
    # Import the clients of catalogs, which not every process has.
    from sluice.clients.catalogs import login as catalog_login
    from sluice.clients.catalogs.pointers import opened

    if catalog.sslrootcert or catalog.sslcert:
        catalog_login.encrypt(cast("Any", spark._jvm), catalog)
    pointers: Any = opened(platform.lake.pyiceberg(platform.s3))
    is_elsewhere = platform.lake.vends and s3_login.has_executors(spark)
    if is_elsewhere or proxy_of(catalog.uri) or pointers.catalog.tokens is None:
        pointers.close()
        return
    from sluice.clients.catalogs import token_endpoint

    for key, value in token_endpoint.java(pointers.catalog.tokens).items():
        spark.conf.set(f"spark.sql.catalog.{CATALOG}.{key}", value)


def tasks(spark: SparkSession, group: str | None = None) -> list[tuple[int, int]]:
    """Active stages with their number of completed tasks, of one job group (a streaming query's is its run
    id), or of all."""
    tracker = spark.sparkContext.statusTracker()
    if group is None:
        stages = tracker.getActiveStageIds()
    else:
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [stage for job in jobs if job and job.status == "RUNNING" for stage in job.stageIds]
    infos = [(stage, tracker.getStageInfo(stage)) for stage in stages]
    return [(stage, info.numCompletedTasks) for stage, info in infos if info is not None]


# Settings of processes that run queries. State is on disk, not in the heap; a batch uploads only its changes.
# The source writes its start position with the table's file IO: to the bucket or a folder, as its checkpoint.
SETTINGS = {
    "spark.master": "local[2]",
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state."
    "RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    f"spark.sql.catalog.{CATALOG}.io-impl": "org.apache.iceberg.io.ResolvingFileIO",
}
# Partitions of a query's shuffles and state; a checkpoint keeps its first number.
PARTITIONS = 4
