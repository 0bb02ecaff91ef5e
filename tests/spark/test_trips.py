"""CSV lines into records, as the taxi stream declares them."""

from __future__ import annotations

import gzip
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from sluice.config import streams
from sluice.config.sections.csv import Csv
from spark_jobs.common.kafka.avro import Schemas
from spark_jobs.common.producer import csv
from spark_jobs.common.producer.csv import InvalidHeader
from spark_jobs.common.producer.lines import Lines
from spark_jobs.common.producer.objects import LINE_SCHEMA
from tests.support.raising import raising

TAXI = streams.load("nyc_taxi").csv
HEADER_2018 = (
    "VendorID,tpep_pickup_datetime,tpep_dropoff_datetime,passenger_count,trip_distance,RatecodeID,"
    "store_and_fwd_flag,PULocationID,DOLocationID,payment_type,fare_amount,extra,mta_tax,tip_amount,"
    "tolls_amount,improvement_surcharge,total_amount"
)
GOOD = "2,02/08/2018 05:07:37 PM,2018-02-08 17:16:20,1,1.78,1,N,79,162,1,8.5,0.5,0.5,1,0,0.3,10.8"


def lines(spark: SparkSession, texts: list[str], undecodable: bool = False) -> DataFrame:
    rows = [
        ("a" * 16, "s3://source/x.csv", 10, n + 2, n, text, undecodable, False)
        for n, text in enumerate(texts)
    ]
    return spark.createDataFrame(rows, LINE_SCHEMA)


def parse(rows: DataFrame, header: str, schemas: Schemas, declared: Csv = TAXI) -> DataFrame:
    record = schemas.current.struct(rows.sparkSession)
    return csv.parse(rows, csv.layout(header, schemas.current, record, declared, "s3://source/x.csv"), record)


def parsed(spark: SparkSession, schemas: Schemas, texts: list[str], header: str = HEADER_2018) -> list[Row]:
    return parse(lines(spark, texts), header, schemas).orderBy("row").collect()


def test_both_ways_of_writing_a_time_become_timestamps(spark: SparkSession, schemas: Schemas) -> None:
    (row,) = parsed(spark, schemas, [GOOD])
    assert row.reason is None
    assert row.record.tpep_pickup_datetime == datetime(2018, 2, 8, 17, 7, 37)  # noqa: DTZ001
    assert row.record.tpep_dropoff_datetime == datetime(2018, 2, 8, 17, 16, 20)  # noqa: DTZ001
    assert (row.record.VendorID, row.record.trip_distance, row.record.store_and_fwd_flag) == (2, 1.78, "N")
    assert row.record.congestion_surcharge is None
    assert row.record.other_columns is None


def test_what_real_files_leave_empty_is_null(spark: SparkSession, schemas: Schemas) -> None:
    (row,) = parsed(
        spark, schemas, [",2020-06-01 00:00:00,2020-06-01 00:01:00,,1.0,,,7,8,,-8.5,0,0,0,0,0.3,-8.2"]
    )
    assert row.reason is None
    record = row.record
    assert [record.VendorID, record.passenger_count, record.RatecodeID, record.payment_type] == [None] * 4
    assert record.store_and_fwd_flag is None
    assert record.total_amount == -8.2


BAD = {
    "too few columns": ("1,2,3", "the row has 3 columns, the header names 17"),
    "too many columns": (GOOD + ",9", "the row has 18 columns, the header names 17"),
    "no time": (
        GOOD.replace("02/08/2018", "30/30/2018"),
        "column tpep_pickup_datetime: '30/30/2018 05:07:37 PM'",
    ),
    "no number": (GOOD.replace("1.78", "far"), "column trip_distance: 'far' is not a number"),
    "not a number at all": (GOOD.replace("1.78", "NaN"), "column trip_distance: 'NaN' is not a number"),
    "half a passenger": (GOOD.replace(",1,1.78", ",1.5,1.78"), "column passenger_count: '1.5' is not an int"),
    "an int beyond ints": (
        GOOD.replace(",79,", ",7900000000,"),
        "column PULocationID: '7900000000' is not an int",
    ),
    "an empty time": (GOOD.replace("2018-02-08 17:16:20", ""), "column tpep_dropoff_datetime is empty"),
    "an open quote": ('"' + GOOD, "the row has 17 columns, the header names 17"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_malformed_row_is_refused_with_the_reason(case: str, spark: SparkSession, schemas: Schemas) -> None:
    text, words = BAD[case]
    bad, good = parsed(spark, schemas, [text, GOOD])
    assert words in (bad.reason or "")
    assert bad.text == text
    assert good.reason is None


def test_whole_numbers_may_be_written_as_decimals(spark: SparkSession, schemas: Schemas) -> None:
    (row,) = parsed(spark, schemas, [GOOD.replace(",1,1.78", ",1.0,1.78")])
    assert (row.reason, row.record.passenger_count) == (None, 1)


def test_columns_may_come_in_any_order_and_case_and_new_ones_are_kept(
    spark: SparkSession, schemas: Schemas
) -> None:
    header = "cbd.fee,CONGESTION_SURCHARGE," + HEADER_2018.replace("VendorID", "vendorid")
    filled, empty = parsed(spark, schemas, ["0.75,2.5," + GOOD, ",," + GOOD], header)
    assert filled.record.VendorID == 2
    assert filled.record.congestion_surcharge == 2.5
    assert filled.record.other_columns == {"cbd.fee": "0.75"}
    assert empty.record.other_columns is None


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (
            HEADER_2018.replace("trip_distance,", ""),
            "s3://source/x.csv: .*'trip_distance'",
        ),
        (HEADER_2018 + ",extra", "'extra' twice"),
        (HEADER_2018 + ",", "column 18"),
    ],
)
def test_a_header_that_cannot_be_right_is_refused(
    header: str, words: str, spark: SparkSession, schemas: Schemas
) -> None:
    with pytest.raises(InvalidHeader, match=words):
        parsed(spark, schemas, [GOOD], header)


def test_a_column_with_the_name_of_the_map_is_kept_in_it(spark: SparkSession, schemas: Schemas) -> None:
    (found,) = parsed(spark, schemas, [f"7,{GOOD}"], f"Other_Columns,{HEADER_2018}")
    assert found.record.other_columns == {"Other_Columns": "7"}


@pytest.mark.parametrize("extra_columns", ["", "VendorID", "rest"])
def test_an_extra_column_without_a_map_for_it_is_refused(
    extra_columns: str, spark: SparkSession, schemas: Schemas
) -> None:
    declared = Csv(TAXI.time_formats, extra_columns)
    with raising(InvalidHeader, "s3://source/x.csv", "'new'", repr(extra_columns)):
        parse(lines(spark, [GOOD]), f"{HEADER_2018},new", schemas, declared)


def test_a_line_that_is_no_utf8_is_refused(spark: SparkSession, schemas: Schemas) -> None:
    frame = parse(lines(spark, [GOOD], undecodable=True), HEADER_2018, schemas)
    assert [row.reason for row in frame.collect()] == ["the line is not UTF-8"]


def test_every_row_of_the_sample_is_good_and_in_its_usual_form(
    spark: SparkSession, schemas: Schemas, sample: Path
) -> None:
    header, _, data = gzip.decompress(sample.read_bytes()).partition(b"\n")
    texts, record = data.decode().splitlines(), schemas.current.struct(spark)
    usual, records = csv.layout(header.decode(), schemas.current, record, TAXI, "sample").usual(Lines(data))
    assert usual.all()
    frame = parse(lines(spark, texts), header.decode(), schemas)
    assert frame.where("reason is null").count() == len(texts) == 29_999
    assert frame.where("record.total_amount < 0").count() == 19
    assert frame.orderBy("row").select("record").toArrow()["record"].to_pylist() == records.to_pylist()
