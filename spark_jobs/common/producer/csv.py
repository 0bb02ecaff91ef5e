"""Records of CSV lines by Spark's parser: every value is of the schema's type, or the row has a reason.

It reads the rows that are not in their usual form (:mod:`spark_jobs.common.producer.usual_rows`).
"""

from __future__ import annotations

import csv
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
)

from sluice.config.sections.csv import Csv
from sluice.config.sending_rules import MAX_REQUEST_BYTES
from sluice.core.error_codes import ErrorCode
from sluice.core.messages import quoted
from spark_jobs.common.kafka.avro import AvroSchema
from spark_jobs.common.producer import usual_rows
from spark_jobs.common.producer.usual_rows import Layout
from spark_jobs.common.spark.columns import computed

CORRUPT = "_corrupt"
BOUNDS = {IntegerType: (-(2**31), 2**31 - 1), LongType: (-(2**63), 2**63 - 1)}


class InvalidHeader(RuntimeError):
    """The columns of an object do not match the schema."""

    code = ErrorCode.INVALID_HEADER


def column_names(header: str, where: str) -> list[str]:
    """Parse a header line. Raises InvalidHeader, naming ``where``, for an empty or duplicate name."""
    names = [name.strip() for name in next(csv.reader([header]))]
    lowered = [name.lower() for name in names]
    for position, name in enumerate(lowered, start=1):
        if not name:
            raise InvalidHeader(
                f"{where}: column {position} of the header has no name: {quoted(header)}. Fix: name it"
            )
        if lowered.count(name) > 1:
            raise InvalidHeader(f"{where}: the header names column {quoted(name)} twice. Fix: rename one")
    return names


def layout(
    header: str,
    schema: AvroSchema,
    record: StructType,
    declared: Csv,
    where: str,
    max_value_bytes: int = MAX_REQUEST_BYTES,
) -> Layout:
    """How the lines below a header become records of ``schema``, which Spark knows as ``record``.

    Columns are matched without case. A column of the schema alone is null, one of the header alone is a
    value in the map of extra columns. Raises InvalidHeader, naming ``where`` (the first object), for a
    missing required column, or an extra one without a map.
    """
    names, rest = column_names(header, where), declared.extra_columns
    at = {name.lower(): position for position, name in enumerate(names)}
    missing = [name for name in schema.required if name.lower() not in at]
    if missing:
        raise InvalidHeader(
            f"{where}: column {missing[0]!r} is required and missing in the header: "
            f"{quoted(', '.join(names))}"
        )
    has_map = rest in record.names and isinstance(record[rest].dataType, MapType)
    if has_map:
        # A column of the map's own name is an extra one too.
        at.pop(rest.lower(), None)
    known = {field.name.lower() for field in record.fields if not (has_map and field.name == rest)}
    extra = tuple((name, i) for i, name in enumerate(names) if name.lower() not in known)
    if extra and not has_map:
        raise InvalidHeader(
            f"{where}: column {quoted(extra[0][0])} of the header is not in the schema. Fix: add it, or name "
            f"a map of strings of the schema as [csv] extra_columns (now {rest!r})"
        )
    for field in record.fields:
        if field.name.lower() in at and field.dataType.typeName() not in usual_rows.KINDS:
            raise TypeError(
                f"no way from CSV text to {field.dataType.simpleString()}. Fix: add it to {__name__}"
            )
    required, symbols = set(schema.required), schema.symbols
    columns = tuple(
        usual_rows.Column(
            field.name,
            field.dataType.typeName(),
            at.get(field.name.lower()),
            field.name in required,
            symbols.get(field.name, ()),
        )
        for field in record.fields
    )
    return Layout(len(names), columns, rest, extra, tuple(declared.time_formats), max_value_bytes)


def parse(lines: DataFrame, layout: Layout, record: StructType) -> DataFrame:
    """Add ``record`` and ``reason`` (null for a good row) to ``lines``."""
    # By position: a name may contain a dot.
    raw = StructType([StructField(f"c{i}", StringType()) for i in range(layout.width)])
    raw.add(StructField(CORRUPT, StringType()))
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    cells = computed(lines, _raw=F.from_csv("text", raw.simpleString(), options))
    texts = computed(cells, _cells=F.struct(*[_trimmed(i).alias(f"c{i}") for i in range(layout.width)]))

    def value(column: usual_rows.Column) -> Column:
        kind = record[column.name].dataType
        if column.name == layout.rest:
            return _map(layout.extra)
        if column.position is None:
            return F.lit(None).cast(kind)
        text = _cell(column.position)
        if column.symbols:
            return F.when(text.isin(*column.symbols), text)
        return _typed(text, kind, layout.time_formats)

    typed = computed(texts, record=F.struct(*[value(column).alias(column.name) for column in layout.columns]))
    reasons = [_form(layout.width)]
    for column in layout.columns:
        if column.position is None:
            continue
        text = _cell(column.position)
        wrong = text.isNotNull() & F.col("record")[column.name].isNull()
        reasons.append(F.when(wrong, _says(record[column.name], text, column.symbols)))
        if column.required:
            reasons.append(F.when(text.isNull(), F.lit(f"column {column.name} is empty")))
    return computed(typed, reason=F.coalesce(*reasons)).drop("_raw", "_cells")


def _trimmed(position: int) -> Column:
    return F.nullif(F.trim(F.col("_raw")[f"c{position}"]), F.lit(""))


def _cell(position: int) -> Column:
    return F.col("_cells")[f"c{position}"]


def _form(columns: int) -> Column:
    broken = F.col("_raw")[CORRUPT].isNotNull() | F.col("_raw").isNull()
    count = F.size(F.split("text", ",")).cast("string")
    return F.when(F.col("undecodable"), F.lit("the line is not UTF-8")).when(
        broken, F.concat(F.lit("the row has "), count, F.lit(f" columns, the header names {columns}"))
    )


def _says(field: StructField, text: Column, symbols: Sequence[str]) -> Column:
    kind = {"integer": "an int", "long": "a long", "double": "a number"}.get(
        field.dataType.typeName(), f"one of {', '.join(symbols)}" if symbols else "a time"
    )
    return F.concat(F.lit(f"column {field.name}: '"), F.substring(text, 1, 80), F.lit(f"' is not {kind}"))


def _map(columns: Sequence[tuple[str, int]]) -> Column:
    if not columns:
        return F.lit(None).cast("map<string,string>")
    entries = F.map_from_arrays(
        F.array(*[F.lit(name) for name, _ in columns]), F.array(*[_cell(i) for _, i in columns])
    )
    filled = F.map_filter(entries, lambda _, value: value.isNotNull())
    return F.when(F.size(filled) > 0, filled)


def _typed(text: Column, kind: DataType, time_formats: Sequence[str]) -> Column:
    if isinstance(kind, StringType):
        return text
    if isinstance(kind, DoubleType):
        number = text.try_cast("double")
        return F.when(~F.isnan(number) & (F.abs(number) != float("inf")), number)
    if isinstance(kind, IntegerType | LongType):
        # Some months write whole numbers as 1.0.
        low, high = BOUNDS[type(kind)]
        number = text.try_cast("decimal(38,6)")
        return F.when((number == F.floor(number)) & number.between(low, high), number).try_cast(kind)
    if isinstance(kind, TimestampNTZType):
        times = [F.try_to_timestamp(text, F.lit(pattern)) for pattern in time_formats]
        return F.coalesce(*times).cast("timestamp_ntz")
    raise TypeError(f"no way from CSV text to {kind.simpleString()}. Fix: add it to {__name__}")
