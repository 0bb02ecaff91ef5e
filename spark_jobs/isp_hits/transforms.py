"""Decode an ISP's hits: JSON objects with the event time ``hittime``. Pure.

Unknown keys are ignored; a duplicate key is an error. A variant keeps the JSON types:
``from_json`` would make a text of a number, and null of another type.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_jobs.common.spark.columns import computed, date_time
from spark_jobs.common.spark.texts import text_of, unreadable_json, wire_format

# Older times are wrong; a time in milliseconds by mistake is far beyond DAY after its record's timestamp. A
# sender's clock may be ahead by less: its hits are loaded, and windows leave them out as early rows.
OLDEST = "2001-01-01 00:00:00Z"
DAY = 86_400

# Field -> its type, as Spark calls it in a variant and as a column's; null, or left out, unless REQUIRED.
FIELDS: Mapping[str, tuple[str, str]] = {
    "hit_id": ("STRING", "string"),
    "hittime": ("STRING", "string"),
    "zipcode": ("STRING", "string"),
    "isp": ("STRING", "string"),
    "ip": ("STRING", "string"),
    "user_id": ("STRING", "string"),
    "url": ("STRING", "string"),
    "status": ("BIGINT", "bigint"),
    "bytes": ("BIGINT", "bigint"),
}
REQUIRED = ("hit_id", "hittime", "zipcode", "isp", "user_id")
WORDS = {"STRING": "a text", "BIGINT": "a whole number of 64 bits"}
# The shape of a hit with all fields and no other key; a variant sorts its keys.
_SHAPE = f"OBJECT<{', '.join(f'{name}: {FIELDS[name][0]}' for name in sorted(FIELDS))}>"
# \z, because $ also matches before a final line break.
_ZIPCODE = r"\A[0-9]{5}\z"


def hits(rows: DataFrame, schema: StructType) -> DataFrame:
    """``rows`` with ``record`` (a struct of ``schema``) and ``reason``: why it is no hit (null: it is one).

    A hit has an id, a time between 2001 and a day after its record's timestamp, a zipcode of five digits, an
    ISP and a user; every field of FIELDS has its type, is null or left out.
    """
    text = F.col("value").cast("string")
    # Spark ignores text behind the JSON value. So the value becomes the first element of an array; the second
    # is the value's hash, which the value cannot contain, and is found only if the value ends before it.
    mark = F.xxhash64(text)
    array = F.concat(F.lit("["), text, F.lit("\n,"), mark.cast("string"), F.lit("]"))
    parsed = computed(rows, array=F.try_parse_json(array))
    is_complete = F.try_variant_get("array", "$[1]", "bigint") == mark
    read = computed(parsed, json=F.when(is_complete, F.variant_get("array", "$[0]", "variant")))
    kinds = ", ".join(f"{name}: {kind}" for name, (_, kind) in FIELDS.items())
    typed = computed(
        read, hit=F.try_variant_get("json", "$", f"struct<{kinds}>"), shape=F.schema_of_variant("json")
    )
    timed = computed(typed, time=date_time(_hit("hittime")))
    return timed.select(*rows.columns, _reason(text).alias("reason"), _record(schema).alias("record"))


def _hit(name: str) -> Column:
    return F.col("hit")[name]


def _record(schema: StructType) -> Column:
    columns = {name: _hit(name) for name in FIELDS} | {
        "hittime": F.col("time"),
        # The session's time zone is UTC.
        "day": F.col("time").cast("date"),
        "kafka_topic": F.col("_kafka_topic"),
        # An external producer's key may be no text, and one with U+FFFD in it could be told from no other.
        "kafka_key": text_of(F.col("key")),
        "kafka_timestamp_type": F.col("_kafka_timestamp_type"),
    }
    return F.struct(
        *(columns[field.name].try_cast(field.dataType).alias(field.name) for field in schema.fields)
    )


def _reason(text: Column) -> Column:
    time, shape = F.col("time"), F.col("shape")
    newest = F.timestamp_seconds(F.unix_seconds("_kafka_timestamp") + DAY)
    return F.coalesce(
        F.when(text.isNull(), F.lit("the record has no value (a tombstone)")),
        F.when(~F.startswith(text, F.lit("{")), F.concat(F.lit("not JSON: "), wire_format(F.col("value")))),
        unreadable_json(text),
        F.when(F.col("json").isNull(), F.lit("not JSON, or a key is there twice")),
        F.when(~shape.startswith("OBJECT<"), F.lit("not a JSON object")),
        # By a lambda, so that what is for a rejected record alone is no part of compiled code.
        F.when(shape != _SHAPE, F.transform(F.array("json"), _wrong)[0]),
        *(F.when(F.coalesce(_hit(name), F.lit("")) == "", F.lit(f"no {name}")) for name in REQUIRED),
        F.when(time.isNull(), F.lit("hittime is not a time")),
        F.when(time < F.lit(OLDEST).cast("timestamp"), F.lit("hittime is before 2001")),
        F.when(time > newest, F.lit("hittime is more than a day after the record came to Kafka")),
        F.when(~_hit("zipcode").rlike(_ZIPCODE), F.lit("zipcode is not five digits")),
        F.when(
            ~_hit("status").between(-(2**31), 2**31 - 1), F.lit("status is not a whole number of 32 bits")
        ),
    )


def _wrong(json: Column) -> Column:
    """The reason for the first field of another type, or null."""
    return F.coalesce(
        *(
            # The type of a missing field is null, which passes.
            F.when(
                ~F.schema_of_variant(F.variant_get(json, f"$.{name}", "variant")).isin(kind, "VOID"),
                F.lit(f"{name} is not {WORDS[kind]}"),
            )
            for name, (kind, _) in FIELDS.items()
        )
    )
