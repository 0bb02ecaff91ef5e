"""Decode Wikimedia's recentchange events (schema 1.0.0, or 2 of ``meta.schema_uri``). Pure.

Unknown keys are ignored, among them ``parsedcomment``: ``comment`` as HTML, half of an event's bytes. Of a
duplicate key the last value counts, as in Python's ``json``; in ``log_params``, kept as text, it is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from spark_jobs.common.spark.columns import computed, date_time

# Wikipedia began in 2001; a time in milliseconds by mistake is far beyond DAY after its record's timestamp.
# A clock may be ahead by less: such changes are loaded, and windows leave them out as early rows.
OLDEST = 978_307_200
DAY = 86_400
# The folder's name (server_name=…) may have 255 bytes in MinIO, as in file systems.
MAX_SERVER_NAME = 240


@dataclass(frozen=True)
class JsonType:
    """A type of JSON: its column's type, Spark's name in a variant, and the words of a reason."""

    column: DataType
    variant: str
    words: str


TEXT = JsonType(StringType(), "STRING", "a text")
TRUTH = JsonType(BooleanType(), "BOOLEAN", "true or false")
INT = JsonType(IntegerType(), "BIGINT", "a whole number of 32 bits")
LONG = JsonType(LongType(), "BIGINT", "a whole number of 64 bits")

# Name (usually the column's) -> path in the event, and type; it may be null or left out.
FIELDS: Mapping[str, tuple[str, JsonType]] = {
    "event_id": ("meta.id", TEXT),
    "event_timestamp": ("meta.dt", TEXT),
    "change_timestamp": ("timestamp", LONG),
    "type": ("type", TEXT),
    "user": ("user", TEXT),
    "bot": ("bot", TRUTH),
    "server_name": ("server_name", TEXT),
    "wiki": ("wiki", TEXT),
    "title": ("title", TEXT),
    "title_url": ("title_url", TEXT),
    "namespace": ("namespace", INT),
    "comment": ("comment", TEXT),
    "length_old": ("length.old", LONG),
    "length_new": ("length.new", LONG),
    "revision_old": ("revision.old", LONG),
    "revision_new": ("revision.new", LONG),
    "minor": ("minor", TRUTH),
    "patrolled": ("patrolled", TRUTH),
    "change_id": ("id", LONG),
    "log_id": ("log_id", LONG),
    "log_type": ("log_type", TEXT),
    "log_action": ("log_action", TEXT),
    "log_action_comment": ("log_action_comment", TEXT),
    "uri": ("meta.uri", TEXT),
    "domain": ("meta.domain", TEXT),
    "request_id": ("meta.request_id", TEXT),
    "server_url": ("server_url", TEXT),
    "server_script_path": ("server_script_path", TEXT),
    "notify_url": ("notify_url", TEXT),
    "schema_uri": ("$schema", TEXT),
    "earlier_schema_uri": ("meta.schema_uri", TEXT),
}
# Of any type.
PARAMS = "log_params"
_OUTER = tuple(dict.fromkeys(path.split(".")[0] for path, _ in FIELDS.values() if "." in path))

_OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": "corrupt",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}
# A text that from_json may have made of a number, boolean, object or array.
_OTHER_JSON = r'^(-?[0-9][0-9.eE+-]*$|true$|false$|\{["}]|\[+(["{\]0-9-]|true|false|null))'


def changes(rows: DataFrame, schema: StructType) -> DataFrame:
    """``rows`` with ``record`` (a struct of ``schema``) and ``reason``: why it is no event (null: it is one).

    An event has an id, a server, and a time between 2001 and a day after its record's timestamp; every field
    of FIELDS has its type, is null or left out.
    """
    text = F.col("value").cast("string")
    read = computed(rows, json=_parsed(text, lambda kind: kind.column))
    # A value of another type is null here, or a text. Only such events are parsed again, as variants, which
    # takes three times as long.
    texts = [_at(F.col("json"), path) for path, kind in FIELDS.values() if kind is TEXT]
    doubtful = reduce(Column.__or__, (F.coalesce(t.rlike(_OTHER_JSON), F.lit(False)) for t in texts))
    again = F.array(_parsed(text, lambda kind: VariantType()))
    wrong_type = F.transform(again, lambda parsed: _wrong(parsed, text))[0]
    wrong = F.when(doubtful | F.col("json.corrupt").isNotNull(), wrong_type)
    assessed = computed(read, reason=_reason(text, wrong))
    return assessed.select("*", _record(schema).alias("record")).drop("json")


def _parsed(text: Column, kind: Callable[[JsonType], DataType]) -> Column:
    """A struct: the ``event`` with fields of these types; ``complete``: the text was JSON to its end; and the
    text as ``corrupt`` if a part of it has another type."""
    # from_json ignores text behind the object. So the text becomes a field of another object, which must
    # continue behind it.
    event: dict[str, DataType] = {}
    for path, field in FIELDS.values():
        outer, _, inner = path.partition(".")
        if inner:
            struct = event.setdefault(outer, StructType())
            assert isinstance(struct, StructType)
            struct.add(inner, kind(field))
        else:
            event[outer] = kind(field)
    event[PARAMS] = VariantType()
    schema = StructType(
        [
            StructField("event", StructType([StructField(name, of) for name, of in event.items()])),
            StructField("complete", BooleanType()),
            StructField("corrupt", StringType()),
        ]
    )
    return F.from_json(F.concat(F.lit('{"event":'), text, F.lit(',"complete":true}')), schema, _OPTIONS)


def _at(parsed: Column, path: str) -> Column:
    return reduce(Column.getField, path.split("."), parsed["event"])


def _field(name: str) -> Column:
    return _at(F.col("json"), FIELDS[name][0])


def _record(schema: StructType) -> Column:
    seconds, params = _field("change_timestamp"), _at(F.col("json"), PARAMS)
    columns = {name: _field(name) for name in FIELDS} | {
        "change_timestamp": F.when(_in_range(seconds), F.timestamp_seconds(seconds)),
        "change_timestamp_date": F.when(
            _in_range(seconds), F.date_from_unix_date(F.floor(seconds / DAY).cast("int"))
        ),
        "event_timestamp": date_time(_field("event_timestamp")),
        "schema_uri": F.coalesce(_field("schema_uri"), _field("earlier_schema_uri")),
        PARAMS: F.when(~F.is_variant_null(params), F.to_json(params)),
    }
    return F.struct(*(columns[field.name].alias(field.name) for field in schema.fields))


def _reason(text: Column, wrong: Column) -> Column:
    seconds, server, dt = _field("change_timestamp"), _field("server_name"), _field("event_timestamp")
    return F.coalesce(
        F.when(text.isNull(), F.lit("the record has no value (a tombstone)")),
        F.when(~F.is_valid_utf8(text), F.lit("not UTF-8")),
        wrong,
        F.when(F.col("json.event").isNull(), F.lit("not a JSON object")),
        F.when(_absent(_field("event_id")), F.lit("no meta.id")),
        F.when(seconds.isNull(), F.lit("no timestamp")),
        F.when(seconds < OLDEST, F.lit("timestamp is before 2001")),
        F.when(~_in_range(seconds), F.lit("timestamp is more than a day after the record came to Kafka")),
        F.when(dt.isNotNull() & date_time(dt).isNull(), F.lit("meta.dt is not a time")),
        F.when(_absent(server), F.lit("no server_name")),
        F.when(F.length(F.url_encode(server)) > MAX_SERVER_NAME, F.lit("server_name is too long")),
    )


def _wrong(parsed: Column, text: Column) -> Column:
    """The reason for the first wrong field of an event of variants, or null."""
    corrupt = parsed["corrupt"].isNotNull()
    objects = [
        F.when(
            corrupt & _at(parsed, name).isNull() & F.get_json_object(text, f"$.{name}").isNotNull(),
            F.lit(f"{name} is not an object"),
        )
        for name in _OUTER
    ]
    fields = []
    for path, kind in FIELDS.values():
        field = _at(parsed, path)
        # Null for a missing field, which passes.
        wrong = ~F.schema_of_variant(field).isin(kind.variant, "VOID")
        if kind is INT:
            wrong = wrong | (~F.is_variant_null(field) & F.try_variant_get(field, "$", "int").isNull())
        fields.append(F.when(wrong, F.lit(f"{path} is not {kind.words}")))
    return F.coalesce(
        F.when(parsed["complete"].isNull(), F.lit("not JSON")),
        F.when(parsed["event"].isNull(), F.lit("not a JSON object")),
        *objects,
        *fields,
        F.when(corrupt, F.lit(f"{PARAMS} has a key twice, or is too large")),
        F.when(F.col("json.corrupt").isNotNull(), F.lit("not of the schema")),
    )


def _in_range(seconds: Column) -> Column:
    return seconds.between(F.lit(OLDEST), F.unix_seconds("_kafka_timestamp") + DAY)


def _absent(text: Column) -> Column:
    return text.isNull() | (text == "")
