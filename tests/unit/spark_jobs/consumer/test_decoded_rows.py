"""Decoded rows with their reasons and identity, as Arrow has them."""

from __future__ import annotations

import json

import pyarrow as pa

from sluice.core.decoding.others.plain import TextDecoder
from sluice.core.decoding.others.records import OthersRecords
from sluice.core.decoding.registered.avro import RegisteredAvro
from sluice.core.decoding.registered.unfollowed import Following
from spark_jobs.common.consumer.decoded_rows import SKIPPED, UNFOLLOWED, _with_record, assessed
from tests.support.registered import FakeSchemas, avro, encoded

A = "a" * 16


def rows() -> pa.RecordBatch:
    kind = pa.struct([pa.field("text", pa.string(), nullable=False)])
    return pa.record_batch(
        {
            "_kafka_partition": pa.array([0, 0, 1], pa.int32()),
            "_kafka_offset": pa.array([7, 8, 9]),
            "_kafka_timestamp": pa.array([0, 0, 0], pa.timestamp("us", tz="UTC")),
            "key": pa.array([f"{A}:70:5".encode(), b"other", None]),
            "record": pa.array([{"text": "a"}, {"text": "b"}, {"text": "c"}], kind),
            "reason": pa.array([None, "bad", None], pa.string()),
        }
    )


def test_identity_is_added_and_a_rejected_record_is_null() -> None:
    found = assessed(rows())
    assert found.select(["_source_id", "_source_row", "_source_base_offset"]).to_pylist() == [
        {"_source_id": A, "_source_row": 70, "_source_base_offset": 2},
        *[dict.fromkeys(("_source_id", "_source_row", "_source_base_offset"))] * 2,
    ]
    assert found["record"].to_pylist() == [{"text": "a"}, None, {"text": "c"}]
    assert found["reason"].to_pylist() == [None, "bad", None]


def test_a_second_time_changes_nothing() -> None:
    once = assessed(rows())
    assert assessed(once).equals(once)


def test_no_rows_are_none() -> None:
    assert assessed(rows().slice(0, 0)).num_rows == 0


def test_a_change_rejects_what_the_stream_skips_and_takes_no_key_of_others_for_its_own() -> None:
    given = rows().drop_columns(["record", "reason"])
    given = given.append_column("value", pa.array([b"a", None, b"\xff"]))
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    given = given.append_column("headers", pa.nulls(3, headers))
    decoder = OthersRecords(TextDecoder("value"), TextDecoder("key"), tombstones="skip")
    found = assessed(_with_record(given, decoder), has_sources=decoder.has_sources)
    assert found["reason"].to_pylist() == [None, SKIPPED, "not UTF-8: byte FF at 1"]
    assert found["record"].to_pylist() == [{"value": "a", "key": f"{A}:70:5"}, None, None]
    assert found["_source_id"].to_pylist() == [None] * 3


def test_a_change_rejects_a_record_of_a_version_that_is_not_followed_yet() -> None:
    """If nothing keeps its further fields: beside other records, and not what is rejected anyway."""
    table = {"type": "record", "name": "O", "fields": [{"name": "id", "type": "long"}]}
    amount = {"name": "amount", "type": ["null", "string"], "default": None}
    wider = {**table, "fields": [{"name": "id", "type": "long"}, amount]}
    schemas = FakeSchemas({1: avro(table), 2: avro(wider)})
    old, new = encoded(schemas, 1, {"id": 1}), encoded(schemas, 2, {"id": 2, "amount": "9"})
    values = [old, new, old, b"?", new, old, new]
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    given = pa.record_batch(
        {
            "key": pa.nulls(len(values), pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.nulls(len(values), headers),
        }
    )
    decoder = OthersRecords(
        RegisteredAvro(json.dumps(table), schemas, following=Following()), None, tombstones="reject"
    )
    found = _with_record(given, decoder)
    reasons = found["reason"].to_pylist()
    assert [reason == UNFOLLOWED for reason in reasons] == [False, True, False, False, True, False, True]
    assert reasons[3]
    assert found["record"].to_pylist() == [{"id": 1}, None, {"id": 1}, None, None, {"id": 1}, None]
    kept = _with_record(given, decoder, keeps_fields=True)["reason"].to_pylist()
    assert kept == [None, None, None, reasons[3], None, None, None]
    follows = OthersRecords(
        RegisteredAvro(json.dumps(wider), schemas, following=Following()), None, tombstones="reject"
    )
    assert [bool(reason) for reason in _with_record(given, follows)["reason"].to_pylist()] == [
        place == 3 for place in range(len(values))
    ]
