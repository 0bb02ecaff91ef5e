"""Avro bodies as Spark writes them for the producer."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import to_avro

from sluice.core.decoding.avro.decoder import AvroDecoder
from sluice.core.record_batches.records import SCHEMA
from spark_jobs.common.kafka.avro import Schemas
from tests.support.hostile_records import TRIP, body


def test_spark_writes_the_bytes_that_are_read(spark: SparkSession, schemas: Schemas) -> None:
    written = body(schemas.current, TRIP)
    found = AvroDecoder(schemas.current.text).decode(
        pa.array([written]), pa.array([[]], SCHEMA.field("headers").type)
    )
    assert found.reasons.to_pylist() == [None]
    (row,) = found.columns.to_pylist()
    assert (row["VendorID"], row["trip_distance"], row["passenger_count"]) == (1, 1.5, None)
    frame = spark.createDataFrame([row], schemas.current.struct(spark))
    (encoded,) = frame.select(to_avro(F.struct("*"), schemas.current.text)).collect()
    assert bytes(encoded[0]) == written
