"""What is particular about Wikimedia's recentchange events. Pure: frames in, frames out.

An event is what EventStreams sends as ``data`` (schema ``/mediawiki/recentchange/1.0.0``, or the older
``mediawiki/recentchange/2``, which names itself in ``meta.schema_uri``). Keys that are not named here are
ignored, among them ``parsedcomment``: it is ``comment`` again, as HTML, and half of an event's bytes.

A key that is there twice counts with its last value, as Python's ``json`` takes it; within ``log_params``,
which is kept as it is, nobody can tell which was meant, so the event is quarantined.

An event id that is on the topic twice (the producer sends each once; a foreign one may not) makes two rows,
each with coordinates of its own: nothing is dropped here, and the load's validation names it.
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

from spark_jobs.common.spark.session import computed

# Wikipedia began in 2001; a time in milliseconds lies far beyond the day after its record came.
OLDEST = 978_307_200
DAY = 86_400
# It becomes a folder's name, server_name=…, for which MinIO has 255 bytes, as file systems have.
MAX_SERVER_NAME = 240


@dataclass(frozen=True)
class Kind:
    """A type of JSON: its column's, what Spark calls it in a variant, and what a reason calls it."""

    column: DataType
    variant: str
    words: str


TEXT = Kind(StringType(), "STRING", "a text")
TRUTH = Kind(BooleanType(), "BOOLEAN", "true or false")
INT = Kind(IntegerType(), "BIGINT", "a whole number of 32 bits")
LONG = Kind(LongType(), "BIGINT", "a whole number of 64 bits")

# Name (a column's, as a rule) -> where it is in the event, and what it is; it may be null, or left out.
FIELDS: Mapping[str, tuple[str, Kind]] = {
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
# The one that may be of any type.
PARAMS = "log_params"
_OUTER = tuple(dict.fromkeys(path.split(".")[0] for path, _ in FIELDS.values() if "." in path))

_OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": "corrupt",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}
# How a text begins that from_json made of a number, a truth value, an object or an array. Others may, too.
_OTHER_JSON = r'^(-?[0-9][0-9.eE+-]*$|true$|false$|\{["}]|\[+(["{\]0-9-]|true|false|null))'
_DATE_TIME = r"^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$"


def changes(rows: DataFrame, schema: StructType) -> DataFrame:
    """``rows`` with ``record`` (a struct of ``schema``) and ``reason``: why it is no event (null: it is one).

    ``rows`` has ``value``, a record's bytes, and ``_kafka_timestamp``. An event has an id, a server, and a
    time between 2001 and a day after its record came to Kafka; every field that is named in FIELDS is of its
    type, null, or left out.
    """
    text = F.col("value").cast("string")
    read = computed(rows, json=_parsed(text, lambda kind: kind.column))
    # What is of another type is null here, or a text. A second look tells, which takes three times as long,
    # so it is for the few events that need it.
    texts = [_at(F.col("json"), path) for path, kind in FIELDS.values() if kind is TEXT]
    doubtful = reduce(Column.__or__, (F.coalesce(t.rlike(_OTHER_JSON), F.lit(False)) for t in texts))
    again = F.array(_parsed(text, lambda kind: VariantType()))
    named = F.transform(again, lambda parsed: _wrong(parsed, text))[0]
    wrong = F.when(doubtful | F.col("json.corrupt").isNotNull(), named)
    assessed = computed(read, reason=_reason(text, wrong))
    return assessed.select("*", _record(schema).alias("record")).drop("json")


def _parsed(text: Column, kind: Callable[[Kind], DataType]) -> Column:
    """A struct: the ``event`` with its fields as these types; whether ``whole`` of the text was JSON; and the
    text, as ``corrupt``, where a part of it was not of its type.

    ``from_json`` reads to the object's end and does not look at what follows. So the text is put into another
    object, and counts where that goes on behind it.
    """
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
            StructField("whole", BooleanType()),
            StructField("corrupt", StringType()),
        ]
    )
    return F.from_json(F.concat(F.lit('{"event":'), text, F.lit(',"whole":true}')), schema, _OPTIONS)


def _at(parsed: Column, path: str) -> Column:
    return reduce(Column.getField, path.split("."), parsed["event"])


def _found(name: str) -> Column:
    return _at(F.col("json"), FIELDS[name][0])


def _record(schema: StructType) -> Column:
    seconds, params = _found("change_timestamp"), _at(F.col("json"), PARAMS)
    made = {name: _found(name) for name in FIELDS} | {
        "change_timestamp": F.when(_in_range(seconds), F.timestamp_seconds(seconds)),
        "change_timestamp_date": F.when(
            _in_range(seconds), F.date_from_unix_date(F.floor(seconds / DAY).cast("int"))
        ),
        "event_timestamp": _time(_found("event_timestamp")),
        "schema_uri": F.coalesce(_found("schema_uri"), _found("earlier_schema_uri")),
        PARAMS: F.when(~F.is_variant_null(params), F.to_json(params)),
    }
    return F.struct(*(made[field.name].alias(field.name) for field in schema.fields))


def _reason(text: Column, wrong: Column) -> Column:
    seconds, server, dt = _found("change_timestamp"), _found("server_name"), _found("event_timestamp")
    return F.coalesce(
        F.when(text.isNull(), F.lit("the record has no value (a tombstone)")),
        F.when(~F.is_valid_utf8(text), F.lit("not UTF-8")),
        wrong,
        F.when(F.col("json.event").isNull(), F.lit("not a JSON object")),
        F.when(_absent(_found("event_id")), F.lit("no meta.id")),
        F.when(seconds.isNull(), F.lit("no timestamp")),
        F.when(seconds < OLDEST, F.lit("timestamp is before 2001")),
        F.when(~_in_range(seconds), F.lit("timestamp is more than a day after the record came to Kafka")),
        F.when(dt.isNotNull() & _time(dt).isNull(), F.lit("meta.dt is not a time")),
        F.when(_absent(server), F.lit("no server_name")),
        F.when(F.length(F.url_encode(server)) > MAX_SERVER_NAME, F.lit("server_name is too long")),
    )


def _wrong(parsed: Column, text: Column) -> Column:
    """Of an event whose fields are variants: the first that is not as it must be; null where all is well."""
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
        # Where there is no field, this is null and no objection.
        wrong = ~F.schema_of_variant(field).isin(kind.variant, "VOID")
        if kind is INT:
            wrong = wrong | (~F.is_variant_null(field) & F.try_variant_get(field, "$", "int").isNull())
        fields.append(F.when(wrong, F.lit(f"{path} is not {kind.words}")))
    return F.coalesce(
        F.when(parsed["whole"].isNull(), F.lit("not JSON")),
        F.when(parsed["event"].isNull(), F.lit("not a JSON object")),
        *objects,
        *fields,
        F.when(corrupt, F.lit(f"{PARAMS} has a key twice, or is too large")),
        F.when(F.col("json.corrupt").isNotNull(), F.lit("not of the schema")),
    )


def _in_range(seconds: Column) -> Column:
    return seconds.between(F.lit(OLDEST), F.unix_seconds("_kafka_timestamp") + DAY)


def _time(text: Column) -> Column:
    return F.when(text.rlike(_DATE_TIME), text.try_cast("timestamp"))


def _absent(text: Column) -> Column:
    return text.isNull() | (text == "")
