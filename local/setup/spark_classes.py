"""Loads the classes of Sluice's Spark jobs; spark-submit runs it, and the JVM keeps them in an archive.

It does on a folder what a consumer does with services: a streaming query that encodes and decodes Avro, and
appends to a branch of an Iceberg table. Kafka, S3 and the catalog's database are asked at a closed port,
which loads their clients.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any, cast

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.avro.functions import from_avro, to_avro
from pyspark.sql.functions import col, struct

CLOSED = "127.0.0.1:9"
SCHEMA = '{"type": "record", "name": "r", "fields": [{"name": "value", "type": "long"}]}'
ICEBERG = "org.apache.iceberg.spark.SparkCatalog"
# As the platform's catalog; the database is not there.
REMOTE = {
    "": ICEBERG,
    ".type": "jdbc",
    ".uri": f"jdbc:postgresql://{CLOSED}/catalog?connectTimeout=1",
    ".warehouse": "s3://bucket/lake",
    ".io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
    ".client.region": "us-east-1",
    ".s3.endpoint": f"http://{CLOSED}",
    ".s3.access-key-id": "none",
    ".s3.secret-access-key": "none",
    ".s3.retry.num-retries": "0",
}
KAFKA = {
    "kafka.bootstrap.servers": CLOSED,
    "kafka.default.api.timeout.ms": "1000",
    "kafka.request.timeout.ms": "500",
    "subscribe": "none",
    "startingOffsets": '{"none": {"0": 0}}',
    "endingOffsets": '{"none": {"0": 1}}',
}


def main(folder: Path) -> None:
    """Write tables and checkpoints below ``folder``."""
    builder = SparkSession.builder.master("local[2]")
    for key, value in REMOTE.items():
        builder = builder.config(f"spark.sql.catalog.remote{key}", value)
    spark = (
        builder.config("spark.sql.catalog.lake", ICEBERG)
        .config("spark.sql.catalog.lake.type", "hadoop")
        .config("spark.sql.catalog.lake.warehouse", str(folder / "lake"))
        .getOrCreate()
    )
    stream_to_table(spark, folder)
    for ask in (read_table, read_kafka, poll_kafka, read_s3):
        with contextlib.suppress(PySparkException, Py4JJavaError):
            ask(spark)
    spark.stop()


def stream_to_table(spark: SparkSession, folder: Path) -> None:
    spark.sql("CREATE TABLE lake.n.t (value long, at timestamp) USING iceberg PARTITIONED BY (days(at))")
    spark.sql("INSERT INTO lake.n.t VALUES (0, current_timestamp())")
    spark.sql("ALTER TABLE lake.n.t CREATE BRANCH w1")

    def append(frame: DataFrame, _: int) -> None:
        encoded = frame.select("timestamp", to_avro(struct("value"), SCHEMA).alias("bytes"))
        decoded = encoded.select(from_avro("bytes", SCHEMA).alias("record"), col("timestamp").alias("at"))
        decoded.select("record.value", "at").writeTo("lake.n.t.branch_w1").append()

    source = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    query = (
        source.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="1 second")
        .foreachBatch(append)
        .start()
    )
    # The first batch compiles, and the rest repeats it.
    query.awaitTermination(5)
    query.stop()
    spark.table("lake.n.t").groupBy("value").count().collect()


def read_table(spark: SparkSession) -> None:
    spark.table("remote.n.t").collect()


def read_kafka(spark: SparkSession) -> None:
    spark.read.format("kafka").options(**KAFKA).load().collect()


def read_s3(spark: SparkSession) -> None:
    jvm = cast("Any", spark._jvm)
    options = jvm.java.util.HashMap()
    for key, value in REMOTE.items():
        options.put(key.removeprefix("."), value)
    files = jvm.org.apache.iceberg.aws.s3.S3FileIO()
    files.initialize(options)
    files.newInputFile("s3://bucket/none").exists()


def poll_kafka(spark: SparkSession) -> None:
    jvm = cast("Any", spark._jvm)
    options = jvm.java.util.HashMap()
    options.put("bootstrap.servers", CLOSED)
    bytes_of = jvm.org.apache.kafka.common.serialization.ByteArrayDeserializer
    consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(options, bytes_of(), bytes_of())
    partition = jvm.org.apache.kafka.common.TopicPartition("none", 0)
    consumer.assign(jvm.java.util.Collections.singletonList(partition))
    consumer.poll(jvm.java.time.Duration.ofSeconds(1))
    consumer.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
