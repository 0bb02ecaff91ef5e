"""Kafka's records in a DataFrame, decoded, with their offsets and the identity of their source."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import LongType, StringType, StructField, StructType

from sluice.core.decoding.assessment import assess
from sluice.core.decoding.decoder import Decoded, RecordDecoder
from sluice.core.record_batches.cursor import Flags
from sluice.core.tables.records import FROM_KAFKA, IDENTITY, KAFKA_COLUMNS

# Kafka's columns (`_kafka_…`, `key`, `value`, `headers`) -> the same with the decoded `record`, and with the
# `reason` why it is malformed (or null).
Decode = Callable[[DataFrame], DataFrame]
UNFOLLOWED = (
    "its schema has more than the table follows yet. Fix: start the stream's consumer, by which the table "
    "follows the schema with the next record of it; then publish this one with action replay or "
    "retry_quarantine of the stream's change DAG"
)
SKIPPED = "the record has no value (a tombstone), and the stream skips these"
_HEADERS = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))
_IDENTITY = dict(zip(IDENTITY, (StringType(), LongType(), LongType()), strict=True))


def decoded(records: DataFrame, decode: Decode) -> DataFrame:
    """Records, with the columns of Spark's Kafka source, as ``decode`` leaves them: for :func:`assessed`."""
    return decode(_named(records)).select(*FROM_KAFKA, "record", "reason")


def _named(records: DataFrame) -> DataFrame:
    return records.select(
        F.col("topic").alias("_kafka_topic"),
        *(F.col(source).alias(name) for name, source in FROM_KAFKA.items()),
    )


def decoded_rows(
    records: DataFrame,
    decoding: Decode | RecordDecoder,
    published: Collection[str] | None = (),
    *,
    keeps_fields: bool = False,
) -> DataFrame:
    """As :func:`decoded`, with the identity of each record, and a reason also where its values cannot be
    read, or it is withheld: but for those of the ``published`` sources (ids; None: all). ``keeps_fields``: a
    column keeps fields that the table has no column for; without it a record that has more is rejected."""
    if callable(decoding):
        rows, decoder = decoded(records, decoding), None
        record = rows.schema["record"].dataType
    else:
        rows, decoder = _named(records).select(*FROM_KAFKA), decoding
        record = from_arrow_type(pa.struct(list(decoding.schema)))

    def judge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if decoder is None:
                yield assessed(batch, published)
            else:
                with_record = _with_record(batch, decoder, keeps_fields=keeps_fields)
                yield assessed(with_record, published, has_sources=decoder.has_sources)

    # All of them nullable: a function's record may be never null.
    kinds = {field.name: field.dataType for field in rows.schema}
    kinds |= {"record": record, "reason": StringType()} | _IDENTITY
    return rows.mapInArrow(judge, StructType([StructField(name, kind) for name, kind in kinds.items()]))


def _with_record(
    rows: pa.RecordBatch, decoder: RecordDecoder, *, keeps_fields: bool = False
) -> pa.RecordBatch:
    # As ``record_batches.records.SCHEMA`` has them; Spark has null in place of none.
    headers = pc.coalesce(rows.column("headers").cast(_HEADERS), pa.scalar([], _HEADERS))
    keys, values = (rows.column(name).cast(pa.binary()) for name in ("key", "value"))
    found = decoder.decode(keys, values, headers)
    if found.skipped is not None:
        # A change has an account of rows and rejected records alone.
        found = replace(found, reasons=pc.if_else(pa.array(found.skipped), SKIPPED, found.reasons))
    if found.unfollowed and not keeps_fields:
        # A change follows nothing, and what the table lacks would be lost.
        is_of = pa.array(_unfollowed(decoder, keys, values, headers))
        reasons = pc.if_else(pc.and_(is_of, found.reasons.is_null()), UNFOLLOWED, found.reasons)
        found = replace(found, reasons=reasons)
    record = pa.StructArray.from_arrays(
        found.columns.columns, fields=list(found.columns.schema), mask=pc.is_valid(found.reasons)
    )
    return rows.append_column("record", record).append_column("reason", found.reasons)


def _unfollowed(
    decoder: RecordDecoder, keys: pa.BinaryArray, values: pa.BinaryArray, headers: pa.ListArray
) -> Flags:
    """The records of schemas that are not followed. A decoder says it of a piece, so halves of it are asked
    as long as there is one in them."""
    found, pieces = np.zeros(len(values), np.bool_), [(0, len(values))]
    while pieces:
        start, until = pieces.pop()
        rows = pa.array(range(start, until))
        if not decoder.decode(keys.take(rows), values.take(rows), headers.take(rows)).unfollowed:
            continue
        if until - start == 1:
            found[start] = True
        else:
            middle = (start + until) // 2
            pieces += [(start, middle), (middle, until)]
    return found


def assessed(
    rows: pa.RecordBatch, published: Collection[str] | None = (), *, has_sources: bool = True
) -> pa.RecordBatch:
    """Rows of :func:`decoded` with all reasons, as UTF-8, and with their identity; ``has_sources``: as a
    RecordDecoder has it. ``record`` is null where there is a reason. Rows that were assessed before stay as
    they are."""
    record = rows.column("record")
    columns = pa.RecordBatch.from_arrays(record.flatten(), record.type.names)
    found = assess(
        Decoded(columns, rows.column("reason")),
        rows.column("key") if has_sources else pa.nulls(len(rows), pa.binary()),
        rows.column("_kafka_timestamp"),
        published,
    )
    own = found.identity.columns(rows.column("_kafka_offset"))
    own["_source_id"] = own["_source_id"].cast(pa.string())
    all_of_it = dict(zip(rows.schema.names, rows.columns, strict=True)) | {
        "_kafka_timestamp": found.times,
        "record": _without(record, columns, found.reasons),
        "reason": pa.array([found.reasons.get(row) for row in range(len(rows))], pa.string()),
        **own,
    }
    return pa.RecordBatch.from_pydict(all_of_it)


def _without(record: pa.StructArray, columns: pa.RecordBatch, rejected: Collection[int]) -> pa.StructArray:
    """The record, null in the rejected rows."""
    if not rejected:
        return record
    mask = pc.is_in(pa.array(range(len(record))), pa.array(sorted(rejected)))
    return pa.StructArray.from_arrays(columns.columns, fields=list(record.type), mask=mask)


def is_good() -> Column:
    """Whether a decoded row is loaded; the others are quarantined."""
    return F.col("reason").isNull()


def table_rows(rows: DataFrame) -> DataFrame:
    """Decoded rows as the stream's table has them."""
    return rows.select("record.*", *KAFKA_COLUMNS, *IDENTITY)
