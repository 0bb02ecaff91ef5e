"""Records that others send: each is a row that every reader can read, or has a reason that it can read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

import duckdb
import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sluice.clients.lake.catalog import Lake
from sluice.clients.lake.reading import files, rows
from sluice.config import streams
from sluice.core.decoding.avro.decoder import AvroDecoder
from sluice.core.decoding.decoder import OwnRecords
from sluice.core.decoding.texts import MAX_REASON
from spark_jobs.common.consumer.decoded_rows import decoded, decoded_rows, is_good, table_rows
from spark_jobs.common.consumer.direct.direct_rows import DirectSource
from spark_jobs.common.consumer.run import decoding, own_decode_of
from spark_jobs.common.consumer.writer import StreamWriter
from spark_jobs.common.kafka.avro import Schemas
from spark_jobs.common.spark.session import KAFKA_RECORD
from spark_jobs.common.spark.texts import printable
from tests.spark.test_wiki import CAME, EVENT, WHOLE
from tests.support.hostile_records import EVENTS, HALF, Headers, body, cases
from tests.support.lakehouse import Stream
from tests.support.services import Services


def records(
    spark: SparkSession, sent: Sequence[tuple[bytes | None, Headers]], at: datetime = CAME
) -> DataFrame:
    found = [(b"k", value, "t", 0, n, at, 0, headers or None) for n, (value, headers) in enumerate(sent)]
    return spark.createDataFrame(found, KAFKA_RECORD)


def loaded(
    spark: SparkSession, name: str, sent: Sequence[tuple[bytes | None, Headers]], at: datetime = CAME
) -> tuple[list[str | None], list[dict[str, Any]]]:
    """Return each record's reason, as the quarantine has it; the rows of the others, as readers show them."""
    decode = decoding(streams.load(name))
    rows = decoded_rows(records(spark, sent, at), decode)
    said = rows.select("_kafka_offset", printable(F.col("reason")).alias("reason")).toArrow()
    reasons = [row["reason"] for row in said.sort_by("_kafka_offset").to_pylist()]
    good = table_rows(rows.where(is_good())).orderBy("_kafka_offset").toArrow()
    with duckdb.connect() as connection:
        connection.register("good", good)
        assert len(connection.execute("select * from good").fetchall()) == good.num_rows
    return reasons, good.to_pylist()


def test_each_record_of_others_is_a_row_or_has_its_reason(spark: SparkSession, schemas: Schemas) -> None:
    tried = cases(schemas.current)
    reasons, rows = loaded(spark, "nyc_taxi", [(value, headers) for _, value, headers, _ in tried])
    found = {name: reason for (name, *_), reason in zip(tried, reasons, strict=True)}
    assert found == {name: reason for name, _, _, reason in tried}
    maps = [dict(row["other_columns"]) for row in rows if row["other_columns"]]
    assert maps == [
        {"k": "v", "k2": "v2"},
        *[{"z": "1", "a": "2", "m": "3"}] * 2,
        {str(n): "v" for n in range(1, 41)},
    ]


def test_each_event_is_a_row_or_has_its_reason(spark: SparkSession) -> None:
    assert all(WHOLE.count(text) == 1 for _, text, _, _ in EVENTS)
    none: Headers = []
    sent = [(WHOLE.replace(text, other).encode(), none) for _, text, other, _ in EVENTS]
    reasons, rows = loaded(spark, "wiki_changes", sent)
    assert dict(zip((name for name, *_ in EVENTS), reasons, strict=True)) == {n: r for n, _, _, r in EVENTS}
    assert [row["comment"] for row in rows] == ["\N{GRINNING FACE}", "\\ud800"]


OTHER = WHOLE.replace("63d9586d", "00000000")
GLUED = {
    WHOLE + ',"tail":1': "not JSON",
    f'{WHOLE},"event":{OTHER}': "not JSON",
    f"{WHOLE},{OTHER}": "more than one JSON value",
    f"{WHOLE}\n{OTHER}": "not JSON",
    f'{WHOLE}],"event":[{OTHER}': "not JSON",
    f"{WHOLE}],[{OTHER}": "not JSON",
    f'{WHOLE},{{"complete":true}}': "more than one JSON value",
    f'{WHOLE}}},{{"event":{OTHER}': "not JSON",
    f"{WHOLE},": "not JSON",
    f",{WHOLE}": "not JSON",
    "\0\0\0\0\7" + WHOLE: "not JSON: starts with 00 and a schema id (7): Confluent's wire format",
}


def test_two_events_in_one_record_are_none(spark: SparkSession) -> None:
    assert loaded(spark, "wiki_changes", [(text.encode(), []) for text in GLUED])[0] == [*GLUED.values()]


PARAMS = [
    '{"z": 123456789012345678901234567890123456789012}',
    '{"m": 1e400}',
    "1e400",
    '{ "b" : 1.50, "a":[ -0, 0.1234567890123456789012345678901234567890, 1E-7 ] }',
    '"a \\"log_params\\": {"',
    '"\\u00e4\\/"',
    "123456789012345678901234567890123456789012",
    "[" * 31 + "]" * 31,
    '{"t": "' + "\\n" * 200_000 + '"}',
    "[" + ", ".join(map(str, range(100_000))) + "]",
]


@pytest.mark.exhaustive
def test_the_text_of_log_params_is_kept_as_it_came(spark: SparkSession) -> None:
    sent = [WHOLE.replace('"wiki":', f'"log_params": {text}, "wiki":') for text in PARAMS]
    # The last one counts, and a text or another object may hold the name.
    sent.append(
        WHOLE.replace('"wiki":', '"log_params": 1, "x": {"log_params": 2}, "log_params" :3 , "wiki":')
    )
    sent.append(WHOLE.replace('"edited"', '"\\"log_params\\": 4"'))
    reasons, rows = loaded(spark, "wiki_changes", [(text.encode(), []) for text in sent])
    assert reasons == [None] * len(sent)
    assert [row["log_params"] for row in rows] == [*PARAMS, "3", None]
    deep = "[" * 40 + "]" * 40
    reasons, _ = loaded(
        spark, "wiki_changes", [(WHOLE.replace('"wiki":', f'"log_params": {deep}, "wiki":').encode(), [])]
    )
    assert reasons == ["log_params is nested more than 32 deep, or its name has escapes"]


def test_times_of_json_that_readers_cannot_show_are_rejected(spark: SparkSession) -> None:
    edits = [
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "9999-12-31T00:00:00Z",
        "9999-12-31T23:00:00-05:00",
    ]
    fine = ["0001-01-02T00:00:00Z", "9999-12-30T23:59:59Z"]
    sent = [json.dumps({**EVENT, "meta": {**EVENT["meta"], "dt": text}}).encode() for text in (*edits, *fine)]
    reasons, rows = loaded(spark, "wiki_changes", [(text, []) for text in sent])
    assert [str(reason).split(": ")[0] for reason in reasons[:4]] == [
        "event_timestamp is a time beyond 0001-01-02 to 9999-12-30"
    ] * 4
    assert (reasons[4:], [row["event_timestamp"].year for row in rows]) == ([None, None], [1, 9999])


def test_hits_are_read_as_they_were_sent(spark: SparkSession) -> None:
    hit = (
        '{"hit_id": "h", "hittime": "2026-02-26T15:49:00Z", "zipcode": "02139", "isp": "i", "user_id": "u", '
        '"url": "/", "ip": null}'
    )
    sent = [hit, hit.replace("/", "\\ud800"), f"{hit},{hit}", hit + ',"tail":1', "\0\0\0\0\7" + hit]
    reasons, _ = loaded(spark, "isp_hits", [(text.encode(), []) for text in sent])
    no = "not JSON, or a key is there twice"
    assert reasons[:4] == [None, HALF, no, no]
    assert reasons[4] == "not JSON: starts with 00 and a schema id (7): Confluent's wire format"


def test_a_timestamp_of_kafka_that_readers_cannot_show_is_rejected(
    spark: SparkSession, schemas: Schemas
) -> None:
    decode = decoding(streams.load("nyc_taxi"))
    sent = records(spark, [(body(schemas.current), [])])
    early = sent.withColumn("timestamp", F.timestamp_micros(F.lit(-(10**17))))
    (row,) = decoded_rows(early, decode).select("reason", "_kafka_timestamp").collect()
    assert row.reason == "its timestamp in Kafka is beyond what can be read: -1199-02-15 14:13:20"
    assert row._kafka_timestamp is None
    # As it comes from the quarantine again.
    (again,) = decoded_rows(sent.withColumn("timestamp", F.lit(None).cast("timestamp")), decode).collect()
    assert again.reason == "its timestamp in Kafka is beyond what can be read: null"


NESTED = (
    "a string, b binary, d date, t timestamp, s struct<x: string, n: struct<y: timestamp_ntz>>, "
    "l array<string>, m map<string, date>, r array<struct<x: string, z: array<string>>>, "
    "v map<string, struct<w: string>>, q array<map<string, string>>"
)
BAD = "cast(X'4ED1' as string)"
LATE = "timestamp_ntz'9999-12-31 23:59:59' + interval 1 day"
DEEP = {
    "a": f"{BAD} as a",
    "d": "date'0001-01-01' - 1 as d",
    "t": "timestamp_micros(-9223372036854775807) as t",
    "s.x": f"named_struct('x', {BAD}, 'n', null) as s",
    "s.n.y": f"named_struct('x', 'x', 'n', named_struct('y', {LATE})) as s",
    "an element of l": f"array('x', null, {BAD}) as l",
    "a key of m": f"map({BAD}, date'2020-01-01') as m",
    "a value of m": "map('x', null, 'y', date'9999-12-31' + 1) as m",
    "x of an element of r": f"array(null, named_struct('x', {BAD}, 'z', null)) as r",
    "an element of z of an element of r": f"array(null, named_struct('x', 'x', 'z', array({BAD}))) as r",
    "w of a value of v": f"map('x', null, 'y', named_struct('w', {BAD})) as v",
    "a value of an element of q": f"array(null, map('x', {BAD})) as q",
}


def test_what_cannot_be_read_is_found_wherever_it_is(spark: SparkSession) -> None:
    kind = cast("StructType", StructType.fromDDL(NESTED))
    for path, value in [*DEEP.items(), ("", "X'4ED1' as b"), ("", "array(null) as r")]:
        made = spark.range(1).selectExpr(value)
        columns = [
            (F.col(f.name) if f.name in made.columns else F.lit(None)).cast(f.dataType).alias(f.name)
            for f in kind
        ]
        record = made.select(F.struct(*columns).alias("record"), F.lit(None).cast("string").alias("reason"))
        one = records(spark, [(b"", [])])
        (row,) = decoded_rows(one, partial(DataFrame.crossJoin, other=record)).collect()
        assert str(row.reason).startswith(f"{path} " if path else "None"), (path, row.reason)


def test_a_reason_is_printable_whatever_it_quotes(spark: SparkSession) -> None:
    quoted = [
        b"fine: \xc3\xa4 \xf0\x9f\x91\xa9",
        b"\xff\x00",
        b"\x1b[2J\r\n\x7f\xc2\x9b",
        b"\xe2\x80\xae\xc2\xa0",
        b"x" * 2000,
    ]
    frame = spark.createDataFrame([(n, v) for n, v in enumerate(quoted)], "n int, v binary")
    said = (
        frame.orderBy("n").select(printable(F.col("v").cast("string")).alias("reason")).toArrow().to_pylist()
    )
    assert [row["reason"] for row in said] == [
        "fine: ä \N{WOMAN}",
        "\N{REPLACEMENT CHARACTER}\\u0000",
        "\\u001b[2J\\u000d\\u000a\\u007f\\u009b",
        "\\u202e\\u00a0",
        "x" * MAX_REASON + "…",
    ]
    assert all(row["reason"].isprintable() for row in said)


def test_a_streams_own_decoding_is_compiled(spark: SparkSession) -> None:
    """Java compiles no method of more than 8,000 bytes."""
    rows = decoded(records(spark, []), own_decode_of(streams.load("isp_hits")))
    generated = cast("Any", spark._jvm).PythonSQLUtils.explainString(rows._jdf.queryExecution(), "codegen")
    sizes = [*map(int, re.findall(r"maxMethodCodeSize:(\d+)", generated))]
    assert max(sizes) < 8_000, sizes


class Trips(Stream):
    """A stream of the taxi's schema."""

    def __init__(
        self, spark: SparkSession, services: Services, name: str, root: str, schemas: Schemas
    ) -> None:
        self.schemas = schemas
        super().__init__(spark, services, name, root)

    def record(self) -> StructType:
        return self.schemas.current.struct(self.spark)

    def writer(self, kind: Callable[..., StreamWriter] = StreamWriter) -> StreamWriter:
        writer = super().writer(kind)
        decoder = OwnRecords(AvroDecoder(self.schemas.current.text))
        writer.rows_of = DirectSource(self.spark, self.platform, self.spec, decoder)
        return writer


@pytest.fixture
def trips(spark: SparkSession, services: Services, tmp_path: Path, schemas: Schemas) -> Iterator[Trips]:
    services.minio, services.postgres  # noqa: B018
    made = Trips(spark, services, "hostile_trips", str(tmp_path), schemas)
    yield made
    made.stop()


def test_table_and_quarantine_stay_readable(trips: Trips, schemas: Schemas) -> None:
    tried = cases(schemas.current)
    producer = Producer({**trips.services.kafka, "log_level": 0})
    for _, value, headers, _ in tried:
        producer.produce(trips.spec.topic.name, value, b"\xff\0", 0, headers=headers)
    assert producer.flush(30) == 0
    trips.run(trips.writer()).stop()
    expected = {n: reason for n, (*_, reason) in enumerate(tried) if reason}
    with closing(Lake.open(trips.platform)) as lake, duckdb.connect() as connection:
        table, quarantine = lake.table(trips.spec.table), lake.table(trips.spec.quarantine_table)
        first = files.quarantined(quarantine, rows.at_offset(0, min(expected)))
        assert [row["reason"] for row in first] == [expected[min(expected)]]
        whole = quarantine.scan().to_arrow()
        found = {row["_kafka_offset"]: row for row in whole.to_pylist()}
        assert {offset: row["reason"] for offset, row in found.items()} == expected
        for offset, row in found.items():
            _, value, headers, _ = tried[offset]
            assert (row["key"], row["value"], row["_kafka_timestamp_type"]) == (b"\xff\0", value, 0)
            assert [(h["key"], h["value"]) for h in row["headers"] or []] == headers
        place = next(iter(rows.find(quarantine, rows.at_offset(0, min(expected)), rows.REJECTED)))
        assert place.values["reason"] == expected[min(expected)]
        # As local/run sql reads them.
        for held, count in ((table, len(tried) - len(expected)), (quarantine, len(expected))):
            connection.register("held", held.scan().to_arrow_batch_reader())
            shown = connection.execute("select * from held").fetchall()
            assert len(shown) == count
        assert table.scan().to_arrow().to_pandas().shape[0] == len(tried) - len(expected)
