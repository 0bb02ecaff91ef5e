"""Records of a query's topic one by one; over a real broker they are in tests/spark/test_kafka_sink.py."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, Message

from sluice.clients.counts_topic import Reading, Result
from sluice.clients.errors import Refused, Unreachable
from tests.support.raising import raising

GOOD = b'{"zipcode":"a","hits":1,"version":0}'


class Record:
    """What a consumer gives: a record, or an error in its place."""

    def __init__(
        self, partition: int, offset: int, key: bytes | None, value: bytes | None, code: int = 0
    ) -> None:
        self._place, self._key, self._value = (partition, offset), key, value
        self._error = KafkaError(code) if code else None

    def error(self) -> KafkaError | None:
        return self._error

    def partition(self) -> int:
        return self._place[0]

    def offset(self) -> int:
        return self._place[1]

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value


def take(reading: Reading, *records: Record) -> None:
    for record in records:
        reading.take(cast("Message", record))


def hits(partition: int, offset: int, zipcode: str, count: int, version: int) -> Record:
    value = {"zipcode": zipcode, "hits": count, "version": version}
    return Record(partition, offset, zipcode.encode(), json.dumps(value).encode())


def end(partition: int, offset: int) -> Record:
    return Record(partition, offset, None, None, KafkaError._PARTITION_EOF)


def test_of_a_key_the_highest_version_counts_wherever_it_lies() -> None:
    reading = Reading("counts", ["zipcode"], {0: 4, 1: 4})
    take(reading, hits(1, 0, "a", 7, 10), hits(0, 0, "a", 5, 9), hits(0, 1, "b", 1, 2), hits(1, 1, "b", 0, 0))
    assert reading.results == {"a": Result({"hits": 7}, 10), "b": Result({"hits": 1}, 2)}
    take(reading, hits(0, 2, "a", 8, 10))
    assert reading.results["a"].measures == {"hits": 8}, "of the same batch the later record"


def test_it_is_read_to_the_ends_that_were_there_and_no_further() -> None:
    reading = Reading("counts", ["zipcode"], {0: 2, 1: 3, 2: 0})
    take(reading, end(2, 0))
    assert set(reading.missing) == {0, 1}
    take(reading, hits(0, 0, "a", 1, 0), hits(0, 2, "a", 99, 9))
    assert set(reading.missing) == {1}
    take(reading, hits(0, 3, "a", 100, 10))
    assert reading.results["a"].version == 0, "what came since then may be of half a batch"


def test_the_end_of_what_is_committed_is_not_the_end() -> None:
    reading = Reading("counts", ["zipcode"], {0: 5})
    take(reading, hits(0, 0, "a", 1, 0), end(0, 1))
    assert reading.missing, "a transaction is open behind it"
    with raising(Unreachable, "'counts'", "partition 0", "offset 1 of 5", "1.5 s", "transaction"):
        raise reading.unfinished(1.5)
    # The transaction's own mark, which is no record, or what was aborted.
    take(reading, end(0, 5))
    assert not reading.missing


def test_why_kafka_was_not_read_is_said() -> None:
    reading = Reading("counts", ["zipcode"], {0: 5})
    reading.note(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    with raising(Unreachable, "1/1 brokers are down"):
        raise reading.unfinished(2)
    with raising(Refused, "topic 'counts'"):
        take(reading, Record(0, 0, None, None, KafkaError.TOPIC_AUTHORIZATION_FAILED))


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (b"a", b"no json", "JSONDecodeError"),
        # Somebody deleted the key, by a record without a value.
        (b"a", None, "JSONDecodeError"),
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
def test_what_is_no_result_is_named_by_its_place_with_the_mend(
    key: bytes | None, value: bytes | None, reason: str
) -> None:
    reading = Reading("counts", ["zipcode"], {0: 9, 1: 9})
    take(reading, Record(1, 3, b"a", GOOD))
    with raising(Refused, "'counts'", "partition 1", "offset 4", reason, "provision_sinks"):
        take(reading, Record(1, 4, key, value))


def test_keys_of_several_columns_are_told_as_the_query_tells_them() -> None:
    reading = Reading("counts", ["zipcode", "secure", "window_start"], {0: 9})

    def record(offset: int, key: str, **value: Any) -> Record:
        body = {**value, "window_start": "2026-03-01T10:02:00Z", "users": 3, "hits": 4, "version": 1}
        return Record(0, offset, key.encode(), json.dumps(body).encode())

    take(
        reading,
        record(0, "a\\|b|True|2026-03-01T10:02:00Z", zipcode="a|b", secure=True),
        record(1, "\\N|\\N|2026-03-01T10:02:00Z", zipcode=None, secure=None),
    )
    assert list(reading.results) == ["a\\|b|True|2026-03-01T10:02:00Z", "\\N|\\N|2026-03-01T10:02:00Z"]
    assert reading.results["\\N|\\N|2026-03-01T10:02:00Z"].measures == {"users": 3, "hits": 4}
