"""What is particular about taxi trips: how their times are written. Pure: frames in, frames out."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from spark_jobs.common import csv_rows
from spark_jobs.common.avro import AvroSchema

# Both occur in the Commission's files: 02/08/2018 05:07:37 AM and 2018-02-08 05:07:37.
TIME_FORMATS = ("yyyy-MM-dd HH:mm:ss", "MM/dd/yyyy hh:mm:ss a")
REST = "other_columns"


def trips(spark: SparkSession, lines: DataFrame, header: str, schema: AvroSchema, where: str) -> DataFrame:
    """``lines`` (of objects with this ``header``) with ``record``, a trip, and ``reason`` (null: good).

    ``where`` names the first of the objects in messages. Raises ``csv_rows.WrongHeader``.
    """
    return csv_rows.parse(
        lines,
        csv_rows.column_names(header, where),
        schema.struct(spark),
        schema.required,
        TIME_FORMATS,
        REST,
        where,
    )
