"""Files of CSV with columns that the schema does not have, which become columns of the table: by producers as
they run, and a consumer that runs meanwhile."""

from __future__ import annotations

import io
import json
import subprocess
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import fastavro
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from local.services import streams as stream_programs
from sluice.airflow import forms
from sluice.clients.kafka.admin import KafkaAdmin
from sluice.clients.lake.catalog import Lake
from sluice.clients.s3.objects import Bucket
from sluice.config.csv_reading import CsvReading
from sluice.config.folders import VARIABLE
from sluice.config.platform_sections.lake import CATALOG
from sluice.config.sections.topic import MAX_MESSAGE_BYTES
from sluice.config.sending_rules import SendingRules
from sluice.config.stream import ENTRY_POINT
from sluice.core.tables.records import Headers
from sluice.ledger.documents import Ledger
from sluice.ledger.keys import run_key
from sluice.loads.planning.plan import LoadPlanner
from sluice.loads.sending import produced
from sluice.loads.sources.csv_object import select_objects
from sluice.loads.verification.verify import LoadVerification
from spark_jobs.common.kafka.avro import AvroSchema, schema_header
from spark_jobs.common.kafka.fingerprints import FingerprintSchemas
from tests.support.declared import DeclaredStream
from tests.support.services import Services
from tests.support.task_systems import task_systems

NAME, PARTITIONS = "csv_columns", 2
STREAM = f"""
name = "{NAME}"
schema = "schema.ddl"
table = "raw.{NAME}"
[topic]
name = "{NAME}"
partitions = {PARTITIONS}
[budget]
versions_per_batch = 50
[csv]
new_columns = "column"
null_texts = ["", "NA"]
"""
# The second one has a column that cannot be read, in one row.
FILES = {
    "a": "id,Über Tag,note\n0,x,p\n1,,q\n2, 007 ,\n",
    "b": "note,TIP amount,id\nr,NA,3\ns,1.50,4\nt,2,five\n",
    "c": "tip_amount,id,uber_tag\n3,6,y\n",
}
EXPECTED = {
    0: {"note": "p", "uber_tag": "x"},
    1: {"note": "q"},
    2: {"uber_tag": " 007 "},
    3: {"note": "r"},
    4: {"note": "s", "tip_amount": "1.50"},
    6: {"tip_amount": "3", "uber_tag": "y"},
}


class Rides(DeclaredStream):
    """Loads of files, one each."""

    def __init__(self, spark: SparkSession, services: Services, root: Path) -> None:
        folder = root / NAME
        folder.mkdir()
        (folder / "stream.toml").write_text(STREAM)
        (folder / "schema.ddl").write_text("id BIGINT\nnote STRING\n")
        self.root = root
        super(DeclaredStream, self).__init__(spark, services, NAME, str(root))
        self.airflow = services.stack.platform("airflow")
        self.ledger = Ledger(services.minio, self.airflow.lake.ledger, NAME)

    def make_topic(self) -> None:
        self.services.make_topic(NAME, PARTITIONS)

    def planned(self, load: str) -> str:
        """The id of the load's source."""
        bucket = self.airflow.source.bucket
        self.services.minio.put_object(Bucket=bucket, Key=f"{NAME}/{load}.csv", Body=FILES[load].encode())
        planner = LoadPlanner(
            self.ledger,
            KafkaAdmin(self.airflow.kafka),
            NAME,
            forms.defaults(self.spec),
            rules=lambda: SendingRules.of(self.spec, MAX_MESSAGE_BYTES),
        )
        objects = Bucket(self.services.minio, bucket).within(f"{NAME}/", CsvReading.of(self.spec))
        select = partial(select_objects, self.ledger, objects)
        plan = planner.pin(load, {"source_prefix": f"{NAME}/{load}.csv"}, select)
        (source,) = plan["sources"]
        return str(source["source_id"])

    def producer(self, load: str) -> subprocess.Popen[str]:
        context = self.services.stack.context
        stream_programs.prepare(context)
        submit = str(Path(context.python).parent / "spark-submit")
        address = self.ledger.uri(run_key(load, "plan"))
        return subprocess.Popen(
            [submit, str(ENTRY_POINT), "producer", NAME, "--plan", address],
            env=context.job_environment() | {VARIABLE: str(self.root)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def produced(self, load: str) -> None:
        """As the task of Airflow says it, once its job has ended."""
        plan = self.ledger.get(run_key(load, "plan"))
        assert plan is not None
        with task_systems(self.airflow) as systems:
            produced.complete(self.ledger, plan, systems.kafka.ends(NAME))

    def verified(self, load: str) -> None:
        """As the task validate does, which counts the file's rows with another parser."""
        with task_systems(self.airflow) as systems:
            systems.bucket = partial(Bucket, systems.s3)
            found = LoadVerification.of(systems, self.spec, self.ledger, load).verify(50.0)
            assert found.problems == []

    def columns(self) -> list[str]:
        with closing(Lake.open(self.platform)) as lake:
            names = lake.table(self.spec.table).schema().column_names
        return [name for name in names if not name.startswith(("_kafka_", "_source_"))]

    def quarantined(self) -> list[tuple[str, str]]:
        found = self.spark.table(f"{CATALOG}.{self.spec.quarantine_table}").select("stage", "reason")
        return [(row.stage, row.reason) for row in found.collect()]


@pytest.fixture
def rides(
    spark: SparkSession, services: Services, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Rides]:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    services.minio, services.postgres  # noqa: B018 - started
    found = Rides(spark, services, tmp_path)
    yield found
    found.stop()


def await_end(process: subprocess.Popen[str]) -> str:
    text, _ = process.communicate(timeout=240)
    assert process.returncode == 0, text[-3000:]
    return text


def publish_first_row(rides: Rides, source: str) -> None:
    """Load ``a`` as an attempt left it that ended after its first record."""
    reading = CsvReading.of(rides.spec)
    schema = AvroSchema(json.dumps(reading.schema_of(("id", "Über Tag", "note"), "")))
    FingerprintSchemas.of(rides.spec, rides.platform).publish(schema)
    body, headers = io.BytesIO(), Headers([schema_header(schema)])
    value = {"id": 0, "note": "p", "uber_tag": "x"}
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema.parsed), value)
    producer = Producer({**rides.services.kafka, "log_level": 0})
    producer.produce(NAME, body.getvalue(), key=f"{source}:0:0", headers=headers, partition=0)
    assert producer.flush(30) == 0


@pytest.mark.exhaustive
def test_two_loads_at_once_add_their_columns_and_a_resumed_one_goes_on(rides: Rides) -> None:
    sources = {load: rides.planned(load) for load in ("a", "b")}
    publish_first_row(rides, sources["a"])
    running = rides.consume(writer := rides.writer(), writer.acquire())
    both = [rides.producer(load) for load in sources]
    texts = [await_end(one) for one in both]
    assert "rows read rows=3 malformed=0" in texts[0], texts[0][-3000:]
    assert "rows read rows=3 malformed=1" in texts[1], texts[1][-3000:]
    running.query.processAllAvailable()
    assert sorted(rides.columns()) == ["id", "note", "tip_amount", "uber_tag"]
    # Columns that came by others, in another order, while the consumer runs.
    rides.planned("c")
    await_end(rides.producer("c"))
    running.query.processAllAvailable()
    columns = rides.columns()
    empty = dict.fromkeys(columns)
    found = {row["id"]: row for row in rides.rows().values()}
    assert found == {number: empty | {"id": number} | row for number, row in EXPECTED.items()}
    assert columns[:2] == ["id", "note"]
    assert sorted(columns[2:]) == ["tip_amount", "uber_tag"]
    assert rides.quarantined() == [("producer", "column id: 'five' is not a long")]
    for load in FILES:
        rides.produced(load)
        rides.verified(load)
