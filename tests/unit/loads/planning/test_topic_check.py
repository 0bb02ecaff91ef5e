"""A topic of others is looked at before each load, and nothing of it is changed."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from sluice.core.error_codes import ErrorCode
from sluice.core.errors import ClientError, Missing, Refused
from sluice.loads.planning import topic_check
from tests.support.others import NAME, OthersStream
from tests.support.raising import raising

LOG = logging.getLogger(__name__)


@pytest.fixture
def stream(tmp_path: Path) -> OthersStream:
    made = OthersStream(tmp_path, partitions=2)
    made.kafka.send(0, 1, 2)
    made.publish()
    return made


def refused(stream: OthersStream, kind: type[ClientError], code: ErrorCode, *data: object) -> None:
    with raising(kind, NAME, *data, "Fix: ") as caught:
        topic_check.check(stream.systems, stream.spec, LOG)
    assert caught.value.code == code


def test_a_topic_that_grows_is_as_it_should_be(stream: OthersStream) -> None:
    stream.kafka.send(2, 1)
    assert topic_check.check(stream.systems, stream.spec, LOG).partitions == 3


def test_a_topic_that_is_not_there_is_not_created(stream: OthersStream) -> None:
    stream.kafka.times = {}
    refused(stream, Missing, ErrorCode.TOPIC_NOT_FOUND, stream.kafka.servers)


def test_a_recreated_topic_is_another_one(stream: OthersStream) -> None:
    stream.kafka.id = "t2"
    refused(stream, Refused, ErrorCode.HEALTH_TOPIC_RECREATED, "t1", "t2")


def test_a_topic_with_fewer_partitions_is_another_one(stream: OthersStream) -> None:
    del stream.kafka.times[1]
    refused(stream, Refused, ErrorCode.TOPIC_MISMATCH, "1 partitions")


def test_a_topic_whose_batches_may_be_too_large_is_not_read(stream: OthersStream) -> None:
    stream.kafka.configs = {"max.message.bytes": "100000000"}
    refused(stream, Refused, ErrorCode.TOPIC_MISMATCH, 100000000, "max_batch_mb")


def test_retention_that_overtook_the_table_is_said(stream: OthersStream) -> None:
    stream.kafka.send(0, 3, 4)
    stream.kafka.first = {0: 3}
    refused(stream, Refused, ErrorCode.HEALTH_DATA_LOST, "1 offsets", "0=[2,3)")
    stream.kafka.first = {0: 2}
    topic_check.check(stream.systems, stream.spec, LOG)
