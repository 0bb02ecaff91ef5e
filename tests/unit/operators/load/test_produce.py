"""Objects that a load cannot begin with: red at once and named, and nothing is pinned or sent."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import boto3
import pytest
from airflow.sdk.exceptions import AirflowFailException
from botocore.response import StreamingBody
from botocore.stub import Stubber

from sluice.clients.errors import Unreachable
from sluice.clients.ledger import Ledger
from sluice.clients.objects import Bucket
from sluice.operators.load.produce import ProduceOperator
from tests.support.memory_s3 import MemoryS3

if TYPE_CHECKING:
    from airflow.sdk import Context
    from mypy_boto3_s3 import S3Client

HEAD = {"ETag": '"e"', "ContentLength": 0, "VersionId": "v"}


@dataclass
class Platform:
    """Of which only the source's bucket is asked here."""

    source: Bucket
    kafka: None = None


class Load:
    def __init__(self, client: S3Client) -> None:
        self.kept = MemoryS3()
        self.operator = ProduceOperator(task_id="produce", stream="nyc_taxi")
        ledger = Ledger(cast("S3Client", self.kept), "s3://w/ledger", "nyc_taxi")
        vars(self.operator).update(platform_hook=Platform(Bucket(client, "source")), ledger=ledger)

    def run(self, **params: Any) -> None:
        self.operator.execute(cast("Context", {"run_id": "r", "params": params}))


@pytest.fixture
def s3() -> Iterator[Stubber]:
    client = boto3.client("s3", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
    with Stubber(client) as stub:
        yield stub
        stub.assert_no_pending_responses()


@pytest.fixture
def load(s3: Stubber) -> Load:
    return Load(cast("S3Client", s3.client))


def test_an_object_that_is_missing(load: Load, s3: Stubber) -> None:
    s3.add_client_error("head_object", "404", http_status_code=404)
    with pytest.raises(AirflowFailException) as failure:
        load.run(objects=["a/missing.csv"])
    assert "s3://source/a/missing.csv" in str(failure.value)
    assert load.kept.objects == {}


def test_a_prefix_that_holds_nothing(load: Load, s3: Stubber) -> None:
    s3.add_response("list_objects_v2", {"Contents": [{"Key": "nothing/here/readme.txt"}]})
    with pytest.raises(AirflowFailException) as failure:
        load.run(source_prefix="nothing/here/")
    assert "s3://source/nothing/here/" in str(failure.value)
    assert load.kept.objects == {}


def test_an_object_of_no_bytes(load: Load, s3: Stubber) -> None:
    s3.add_response("head_object", HEAD)
    s3.add_response("get_object", {"Body": StreamingBody(io.BytesIO(b""), 0)})
    with pytest.raises(AirflowFailException) as failure:
        load.run(objects=["a/no-bytes.csv"])
    assert "s3://source/a/no-bytes.csv" in str(failure.value)
    assert load.kept.objects == {}


def test_a_bucket_that_does_not_answer_is_asked_again_by_the_next_attempt(load: Load, s3: Stubber) -> None:
    s3.add_client_error("head_object", "SlowDown", http_status_code=503)
    with pytest.raises(Unreachable):
        load.run(objects=["a.csv"])
