"""Decode Wikimedia's recentchange events (schema 1.0.0, or 2 of ``meta.schema_uri``). Pure.

Unknown keys are ignored, among them ``parsedcomment``: ``comment`` as HTML, half of an event's bytes. The
last value of a duplicate key counts, as in Python's ``json``; in ``log_params``, kept as its text, it is an
error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
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
from spark_jobs.common.spark.texts import unreadable_json, wire_format

# Wikipedia began in 2001; a time in milliseconds by mistake is far beyond DAY after its record's timestamp.
# A clock may be ahead by less: such changes are loaded, and windows leave them out as early rows.
OLDEST = 978_307_200
DAY = 86_400
# Names the event where Spark reads it. Drawn by this process, so no event can contain it.
MARK = f"mark_{os.urandom(16).hex()}"
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
# A field of any type.
PARAMS = "log_params"
MAX_PARAMS_DEPTH = 32
_OUTER = tuple(dict.fromkeys(path.split(".")[0] for path, _ in FIELDS.values() if "." in path))

_OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": "corrupt",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}


def _value_of(key: str) -> str:
    """The regular expression of a JSON object whose group is the text of this key's value; of several the
    last. For valid JSON only, whose brackets match; without backtracking, and without recursion into long
    texts."""
    text, other = r'"(?:[^"\\]++|\\.)*+"', r'[^\[\]{}"]++'
    parts = f"{text}|{other}"
    for _ in range(MAX_PARAMS_DEPTH):
        nested = rf"[\[{{](?:{parts})*+[\]}}]"
        parts = f"{text}|{other}|{nested}"
    return rf'(?s)\A\s*+\{{(?:"{key}"\s*+:\s*+({text}|{nested}|[^\s,\[\]{{}}"]++)|{parts})*+\}}'


_PARAMS_TEXT = _value_of(PARAMS)
# A text that from_json may have made of a number, boolean, object or array.
_OTHER_JSON = r'^(-?[0-9][0-9.eE+-]*$|true$|false$|\{["}]|\[+(["{\]0-9-]|true|false|null))'


def changes(rows: DataFrame, schema: StructType) -> DataFrame:
    """``rows`` with ``record`` (a struct of ``schema``) and ``reason``: why it is no event (null: it is one).

    An event has an id, a server, and a time between 2001 and a day after its record's timestamp; every field
    of FIELDS has its type, is null or left out. ``log_params`` is kept as its text: numbers have no limits
    there.
    """
    text = F.col("value").cast("string")
    read = computed(rows, json=_parsed(text, lambda kind: kind.column))
    parsed = F.col("json")
    params = _event(parsed)[PARAMS]
    with_event = computed(
        read,
        event=_event(parsed),
        is_alone=_is_alone(parsed) & parsed["corrupt"].isNull(),
        params=F.when(
            params.isNotNull() & ~F.is_variant_null(params), F.regexp_extract(text, _PARAMS_TEXT, 1)
        ),
        time=date_time(_at(_event(parsed), FIELDS["event_timestamp"][0])),
    )
    # A value of another type is null here, or a text. Only such events are parsed again, as variants, which
    # takes three times as long.
    texts = [_field(name) for name, (_, kind) in FIELDS.items() if kind is TEXT]
    doubtful = reduce(Column.__or__, (F.coalesce(t.rlike(_OTHER_JSON), F.lit(False)) for t in texts))
    again = F.array(_parsed(text, lambda kind: VariantType()))
    wrong_type = F.transform(again, lambda other: _wrong(other, text))[0]
    wrong = F.when(doubtful | ~F.coalesce("is_alone", F.lit(False)), wrong_type)
    assessed = computed(with_event, reason=_reason(text, wrong), record=_record(schema))
    return assessed.select(*rows.columns, "reason", "record")


def _parsed(text: Column, kind: Callable[[JsonType], DataType]) -> Column:
    """A struct with the :func:`_event`, whose fields have these types; the text is ``corrupt`` if it is not
    JSON to its end, or if a part of it has another type."""
    # from_json ignores text behind the object, and keys that it is not asked for. So the text becomes the
    # first element of an array, which must have one more, under a name that the text cannot have.
    event: dict[str, DataType] = {}
    for path, field in FIELDS.values():
        outer, _, inner = path.partition(".")
        if inner:
            struct = event.setdefault(outer, StructType())
            assert isinstance(struct, StructType)
            struct.add(inner, kind(field))
        else:
            event[outer] = kind(field)
    event |= {PARAMS: VariantType(), MARK: BooleanType()}
    elements = ArrayType(StructType([StructField(name, of) for name, of in event.items()]))
    schema = StructType([StructField(MARK, elements), StructField("corrupt", StringType())])
    wrapped = F.concat(F.lit(f'{{"{MARK}":['), text, F.lit(f'\n,{{"{MARK}":true}}]}}'))
    return F.from_json(wrapped, schema, _OPTIONS)


def _event(parsed: Column) -> Column:
    return F.get(parsed[MARK], F.lit(0))


def _is_alone(parsed: Column) -> Column:
    """Whether the text was JSON to its end, and one value."""
    return (F.size(parsed[MARK]) == 2) & F.get(parsed[MARK], F.lit(1))[MARK]


def _is_json(text: Column) -> Column:
    """Whether the text is JSON to its end, of any type. Not that it is one value: see :func:`_is_alone`."""
    wrapped = F.concat(F.lit('{"value":'), text, F.lit(f',"{MARK}":true}}'))
    return F.from_json(wrapped, StructType([StructField(MARK, BooleanType())]), _OPTIONS)[MARK].isNotNull()


def _at(event: Column, path: str) -> Column:
    return reduce(Column.getField, path.split("."), event)


def _field(name: str) -> Column:
    return _at(F.col("event"), FIELDS[name][0])


def _record(schema: StructType) -> Column:
    seconds = _field("change_timestamp")
    columns = {name: _field(name) for name in FIELDS} | {
        "change_timestamp": F.when(_in_range(seconds), F.timestamp_seconds(seconds)),
        "change_timestamp_date": F.when(
            _in_range(seconds), F.date_from_unix_date(F.floor(seconds / DAY).cast("int"))
        ),
        "event_timestamp": F.col("time"),
        "schema_uri": F.coalesce(_field("schema_uri"), _field("earlier_schema_uri")),
        PARAMS: F.col("params"),
    }
    return F.struct(*(columns[field.name].alias(field.name) for field in schema.fields))


def _reason(text: Column, wrong: Column) -> Column:
    seconds, server, dt = _field("change_timestamp"), _field("server_name"), _field("event_timestamp")
    return F.coalesce(
        F.when(text.isNull(), F.lit("the record has no value (a tombstone)")),
        F.when(~F.startswith(text, F.lit("{")), F.concat(F.lit("not JSON: "), wire_format(F.col("value")))),
        unreadable_json(text),
        wrong,
        F.when(F.col("event").isNull(), F.lit("not a JSON object")),
        F.when(_absent(_field("event_id")), F.lit("no meta.id")),
        F.when(seconds.isNull(), F.lit("no timestamp")),
        F.when(seconds < OLDEST, F.lit("timestamp is before 2001")),
        F.when(~_in_range(seconds), F.lit("timestamp is more than a day after the record came to Kafka")),
        F.when(dt.isNotNull() & F.col("time").isNull(), F.lit("meta.dt is not a time")),
        F.when(_absent(server), F.lit("no server_name")),
        F.when(F.length(F.url_encode(server)) > MAX_SERVER_NAME, F.lit("server_name is too long")),
        F.when(
            F.col("params") == "",
            F.lit(f"{PARAMS} is nested more than {MAX_PARAMS_DEPTH} deep, or its name has escapes"),
        ),
    )


def _wrong(parsed: Column, text: Column) -> Column:
    """The reason for the first wrong field of an event of variants, or null."""
    corrupt, event = parsed["corrupt"].isNotNull(), _event(parsed)
    # Number of JSON values with commas between them; null for other texts.
    values = F.coalesce(F.json_array_length(F.concat(F.lit("["), text, F.lit("]"))), F.lit(0))
    objects = [
        F.when(
            corrupt & _at(event, name).isNull() & F.get_json_object(text, f"$.{name}").isNotNull(),
            F.lit(f"{name} is not an object"),
        )
        for name in _OUTER
    ]
    fields = []
    for path, kind in FIELDS.values():
        field = _at(event, path)
        # Null for a missing field, which passes.
        wrong = ~F.schema_of_variant(field).isin(kind.variant, "VOID")
        if kind is INT:
            wrong = wrong | (~F.is_variant_null(field) & F.try_variant_get(field, "$", "int").isNull())
        fields.append(F.when(wrong, F.lit(f"{path} is not {kind.words}")))
    return F.coalesce(
        F.when(values > 1, F.lit("more than one JSON value")),
        F.when((values == 1) & event.isNull() & _is_json(text), F.lit("not a JSON object")),
        F.when(~F.coalesce(_is_alone(parsed), F.lit(False)), F.lit("not JSON")),
        *objects,
        *fields,
        F.when(corrupt, F.lit(f"{PARAMS} has a key twice, or is too large")),
        F.when(~F.coalesce("is_alone", F.lit(False)), F.lit("not of the schema")),
    )


def _in_range(seconds: Column) -> Column:
    return seconds.between(F.lit(OLDEST), F.unix_seconds("_kafka_timestamp") + DAY)


def _absent(text: Column) -> Column:
    return text.isNull() | (text == "")
