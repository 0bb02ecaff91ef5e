"""A decoder as a function of DataFrames, for records that come by another way than the reader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from sluice.core.decoding.decoder import Decoder
from spark_jobs.common.consumer.decoded_rows import Decode

_HEADERS = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))


def by_decoder(decoder: Decoder, record: StructType) -> Decode:
    """The same rows and reasons as the consumer's. ``record``: Spark's type of the decoder's columns."""

    def decode(rows: DataFrame) -> DataFrame:
        added = [StructField("record", record), StructField("reason", StringType())]
        return rows.mapInArrow(read, StructType([*rows.schema.fields, *added]))

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            values = batch.column("value").cast(pa.binary())
            decoded = decoder.decode(values, _headers(batch.column("headers")))
            struct = pa.StructArray.from_arrays(
                decoded.columns.columns,
                fields=list(decoded.columns.schema),
                mask=pc.is_valid(decoded.reasons),
            )
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, struct, decoded.reasons], [*batch.schema.names, "record", "reason"]
            )

    return decode


def _headers(headers: pa.ListArray) -> pa.ListArray:
    """As ``record_batches.records.SCHEMA`` has them; Spark has null in place of none."""
    return pc.coalesce(headers.cast(_HEADERS), pa.scalar([], _HEADERS))
