"""Objects that a load cannot begin with: red at once and named, and nothing is pinned or sent."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import boto3
import pytest
from airflow.sdk.exceptions import AirflowFailException
from botocore.response import StreamingBody
from botocore.stub import Stubber

from sluice.airflow.operators.load.produce import ProduceOperator, java_options
from sluice.clients.lake.catalog import Lake
from sluice.clients.s3.objects import Bucket
from sluice.config.stream import SourceType
from sluice.core.errors import Unreachable
from sluice.ledger.documents import Ledger
from sluice.ledger.keys import run_key
from tests.support import lake as lakes
from tests.support.loads import Loads
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising
from tests.support.steps import NewTables, triggered

if TYPE_CHECKING:
    from airflow.sdk import Context
    from mypy_boto3_s3 import S3Client

HEAD = {"ETag": '"e"', "ContentLength": 0, "VersionId": "v"}


@dataclass
class Platform:
    """A platform of which only the source's bucket is asked here."""

    source: Bucket
    lake: Lake
    kafka: None = None


class Load:
    def __init__(self, client: S3Client, lake: Lake) -> None:
        self.kept = MemoryS3()
        self.operator = ProduceOperator(task_id="produce", stream="nyc_taxi")
        ledger = Ledger(cast("S3Client", self.kept), "s3://w/ledger", "nyc_taxi")
        vars(self.operator).update(platform_hook=Platform(Bucket(client, "source"), lake), ledger=ledger)
        vars(self.operator).update(tables=NewTables())

    def run(self, **params: Any) -> None:
        self.operator.execute(cast("Context", {"run_id": "r", "params": params}))


@pytest.fixture
def s3() -> Iterator[Stubber]:
    client = boto3.client("s3", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
    with Stubber(client) as stub:
        yield stub
        stub.assert_no_pending_responses()


@pytest.fixture
def load(s3: Stubber, tmp_path: Path) -> Load:
    return Load(cast("S3Client", s3.client), lakes.make(tmp_path))


def test_an_object_that_is_missing(load: Load, s3: Stubber) -> None:
    s3.add_client_error("head_object", "404", http_status_code=404)
    with pytest.raises(AirflowFailException) as failure:
        load.run(objects=["nyc_taxi/missing.csv"])
    assert "s3://source/nyc_taxi/missing.csv" in str(failure.value)
    assert load.kept.objects == {}


def test_a_prefix_that_holds_nothing(load: Load, s3: Stubber) -> None:
    version = {
        "Key": "nyc_taxi/nothing/readme.txt",
        "VersionId": "v",
        "ETag": '"e"',
        "Size": 1,
        "IsLatest": True,
    }
    s3.add_response("list_object_versions", {"Versions": [version]})
    with pytest.raises(AirflowFailException) as failure:
        load.run(source_prefix="nyc_taxi/nothing/")
    assert "s3://source/nyc_taxi/nothing/" in str(failure.value)
    assert load.kept.objects == {}


def test_an_object_of_no_bytes(load: Load, s3: Stubber) -> None:
    s3.add_response("head_object", HEAD)
    s3.add_response("get_object", {"Body": StreamingBody(io.BytesIO(b""), 0), "ContentLength": 0})
    with pytest.raises(AirflowFailException) as failure:
        load.run(objects=["nyc_taxi/no-bytes.csv"])
    assert "s3://source/nyc_taxi/no-bytes.csv" in str(failure.value)
    assert load.kept.objects == {}


def test_a_bucket_that_does_not_answer_is_asked_again_by_the_next_attempt(load: Load, s3: Stubber) -> None:
    s3.add_client_error("head_object", "SlowDown", http_status_code=503)
    with pytest.raises(Unreachable):
        load.run(objects=["nyc_taxi/a.csv"])


def test_a_run_id_that_is_used_again_with_other_params(load: Load) -> None:
    """The plan of the deleted run is complete: without the comparison the task would succeed."""
    params = {"source_prefix": "nyc_taxi/", "objects": ["a.csv"]}
    plan = {"params": params, "topic": "nyc-taxi", "sources": [], "at": "then"}
    load.operator.ledger.put(run_key("r", "plan"), plan)
    with raising(AirflowFailException, "SLU-306", "'r'", "['a.csv']", "['b.csv']"):
        load.run(objects=["b.csv"])


@pytest.mark.parametrize("kind", ["manual", "operator_triggered", "asset_materialization", "scheduled"])
def test_a_run_id_that_is_used_again_after_airflow_deleted_its_run(tmp_path: Path, kind: str) -> None:
    """The plan of the deleted run is complete: with it the run would load nothing of what came since."""
    loads = Loads(tmp_path)
    loads.upload("a")
    loads.produce("r", dag_run=triggered(0))
    # Cleared: the run was triggered before its plan.
    assert loads.produce("r", dag_run=triggered(-40))["sources"] == 1
    loads.upload("b")
    if kind == "scheduled":
        assert loads.produce("r", dag_run=triggered(31, kind))["sources"] == 1
        return
    with raising(AirflowFailException, "SLU-306", "run id 'r'", "another run id"):
        loads.produce("r", dag_run=triggered(31, kind))
    assert loads.produce("r2", dag_run=triggered(0))["sources"] == 2


def test_the_jvm_of_a_load_of_files_needs_no_second_compiler() -> None:
    """Its rows never come there, those of a generator are made there."""
    found = {source: "TieredStopAtLevel=1" in str(java_options(source)) for source in SourceType}
    assert found == {
        SourceType.CSV: True,
        SourceType.GENERATOR: False,
        SourceType.FEED: False,
        SourceType.TOPIC: False,
    }


def test_a_topic_that_is_created_again_while_rows_are_sent_fails_the_task(tmp_path: Path) -> None:
    """A producer goes on as if nothing had been, and the rows before it are gone."""

    class Recreating(Loads):
        def _send(self, context: Any, options: Any) -> None:
            super()._send(context, options)
            self.topic_id = "another"

    loads = Recreating(tmp_path)
    loads.upload("a")
    with raising(AirflowFailException, "SLU-304", "created again", "another", "upload the file again"):
        loads.produce("r")
