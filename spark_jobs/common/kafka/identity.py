"""Columns of a row's identity (``sluice.model.verification.source``), from producers to consumers."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from sluice.model.verification.source import KEY_PATTERN


def with_lane_and_seq(rows: DataFrame) -> DataFrame:
    """Add ``lane`` (the topic partition, ``row % lanes``) and ``seq``, and order each lane by ``seq``.

    ``rows`` has ``source_id``, ``row`` and ``lanes``. Both columns follow from the object alone, so every
    attempt at sending it gives every row the same identity.
    """
    lane = (F.col("row") % F.col("lanes")).cast("int")
    place = F.row_number().over(Window.partitionBy("source_id", "lane").orderBy("row")) - 1
    return rows.withColumn("lane", lane).withColumn("seq", place.cast("long"))


def key() -> Column:
    """The record's key, as bytes."""
    return F.concat_ws(":", "source_id", F.col("row").cast("string"), F.col("seq").cast("string")).cast(
        "binary"
    )


def with_identity(records: DataFrame) -> DataFrame:
    """Add ``_source_id``, ``_source_row``, ``_source_base`` from the ``key``; null for foreign records.

    ``_source_base`` is the offset minus ``seq``: constant while one producer writes one lane undisturbed,
    which is what lets file bounds alone show that no row is there twice.
    """
    text = F.col("key").cast("string")
    row, seq = (F.regexp_extract(text, KEY_PATTERN, n).cast("long") for n in (2, 3))
    ours = text.rlike(KEY_PATTERN)
    return records.select(
        "*",
        F.when(ours, F.regexp_extract(text, KEY_PATTERN, 1)).alias("_source_id"),
        F.when(ours, row).alias("_source_row"),
        F.when(ours, F.col("_kafka_offset") - seq).alias("_source_base"),
    )
