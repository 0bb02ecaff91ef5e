"""Records of a query's topic one by one; over a real broker they are in tests/spark/test_kafka_sink.py."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

import pytest
from confluent_kafka import Message

from sluice.clients.kafka.reader import Result, newest
from sluice.core.errors import Refused
from sluice.core.queries.result import tombstone_headers
from sluice.core.tables.records import Headers
from tests.support.kafka_records import Record
from tests.support.raising import raising

GOOD = b'{"zipcode":"a","hits":1,"version":0}'


def hits(partition: int, offset: int, zipcode: str, count: int, version: int) -> Record:
    value = {"zipcode": zipcode, "hits": count, "version": version}
    return Record(partition, offset, zipcode.encode(), json.dumps(value).encode())


def results(*records: Record, keys: Sequence[str] = ("zipcode",)) -> dict[str, Result]:
    return newest("counts", keys, [cast("Message", record) for record in records])


def test_of_a_key_the_highest_version_counts_wherever_it_lies() -> None:
    records = [
        *(hits(1, 0, "a", 7, 10), hits(0, 0, "a", 5, 9)),
        *(hits(0, 1, "b", 1, 2), hits(1, 1, "b", 0, 0)),
    ]
    assert results(*records) == {"a": Result({"hits": 7}, 10), "b": Result({"hits": 1}, 2)}
    of_the_same_batch = hits(0, 2, "a", 8, 10)
    assert results(*records, of_the_same_batch)["a"].aggregates == {"hits": 8}


def gone(partition: int, offset: int, zipcode: str, version: int) -> Record:
    return Record(partition, offset, zipcode.encode(), None, headers=tombstone_headers(version))


def test_a_key_that_a_rebuild_removed_has_no_result_unless_a_later_batch_brings_it_back() -> None:
    records = [hits(0, 0, "a", 5, 3), gone(0, 1, "a", 4), hits(0, 2, "b", 1, 3), gone(0, 3, "b", 4)]
    assert results(*records) == {}
    assert results(*records, hits(0, 4, "a", 1, 5)) == {"a": Result({"hits": 1}, 5)}
    # In a partition that was added later, and is read before.
    assert results(hits(1, 0, "a", 1, 5), *records) == {"a": Result({"hits": 1}, 5)}
    assert results(*records, hits(1, 0, "a", 7, 2)) == {}


@pytest.mark.parametrize("headers", [None, [], [("version", b"")], [("version", b"-1")], [("v", b"1")]])
def test_a_record_without_value_that_no_query_wrote_is_no_result(
    headers: Headers | None,
) -> None:
    with raising(Refused, "'counts'", "partition 1", "offset 4", "no value", "version"):
        results(Record(1, 4, b"a", None, headers=headers))


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (b"a", b"no json", "JSONDecodeError"),
        (b"a", b"", "JSONDecodeError"),
        (b"a", b'{"zipcode":"\xff"}', "UnicodeDecodeError"),
        (b"\xff", GOOD, "UnicodeDecodeError"),
        (None, GOOD, "''"),
        (b"b", GOOD, "'b'"),
        (b"a", b"[1]", "TypeError"),
        (b"a", b"7", "TypeError"),
        (b"a", b"null", "TypeError"),
        (b"a", b'{"hits":1,"version":0}', "KeyError: 'zipcode'"),
        (b"a", b'{"zipcode":"a","hits":1}', "KeyError: 'version'"),
        (b"a", b'{"zipcode":"a","version":0}', "whole numbers"),
        (b"a", b'{"zipcode":"a","hits":"1","version":0}', "whole numbers"),
        (b"a", b'{"zipcode":"a","hits":1.5,"version":0}', "whole numbers"),
        (b"a", b'{"zipcode":"a","hits":null,"version":0}', "whole numbers"),
        (b"a", b'{"zipcode":"a","hits":true,"version":0}', "whole numbers"),
        (b"a", b'{"zipcode":"a","hits":1,"version":"0"}', "whole numbers"),
    ],
)
def test_what_is_no_result_is_named_by_its_place_with_the_fix(
    key: bytes | None, value: bytes | None, reason: str
) -> None:
    with raising(Refused, "'counts'", "partition 1", "offset 4", reason, "provision_sinks"):
        results(Record(1, 3, b"a", GOOD), Record(1, 4, key, value))


def test_keys_of_several_columns_are_told_as_the_query_tells_them() -> None:
    def record(offset: int, key: str, **value: Any) -> Record:
        body = {**value, "window_start": "2026-03-01T10:02:00Z", "users": 3, "hits": 4, "version": 1}
        return Record(0, offset, key.encode(), json.dumps(body).encode())

    found = results(
        record(0, "a\\|b|True|2026-03-01T10:02:00Z", zipcode="a|b", secure=True),
        record(1, "\\N|\\N|2026-03-01T10:02:00Z", zipcode=None, secure=None),
        keys=["zipcode", "secure", "window_start"],
    )
    assert list(found) == ["a\\|b|True|2026-03-01T10:02:00Z", "\\N|\\N|2026-03-01T10:02:00Z"]
    assert found["\\N|\\N|2026-03-01T10:02:00Z"].aggregates == {"users": 3, "hits": 4}
