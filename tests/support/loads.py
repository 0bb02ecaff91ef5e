"""Loads without a stack: objects and ledger in memory, a SQLite and files lake, and a topic that is a number.

What a load sends is published at once, one file per load; a row's offset in partition 0 follows the topic's.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
from airflow.sdk.exceptions import TaskDeferred
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from sqlalchemy import update
from sqlalchemy.orm import Session

from sluice.airflow.failures import final_failures
from sluice.airflow.operators.load.produce import ProduceOperator
from sluice.airflow.sensors.published import PublishedSensor
from sluice.clients.kafka.admin import TopicDescription
from sluice.clients.s3.objects import Bucket
from sluice.config.sections.topic import MAX_MESSAGE_BYTES
from sluice.core.offsets.quarantine import WITHHELD_REASON
from sluice.ledger.batch_log import FOLDER
from sluice.ledger.batches import BatchLog
from sluice.ledger.documents import Ledger
from sluice.loads.planning import plan as plans
from tests.support import lake as lakes
from tests.support import rides
from tests.support.memory_s3 import MemoryS3
from tests.support.steps import NewTables, ValidateRows, given, ledger

TOPIC_ID, WRITER = "topic-1", "w1_aa"


class Loads:
    """``s3.requests`` counts, by kind, what the steps ask of the source's bucket and of the ledger."""

    def __init__(self, folder: Path, page: int = 1000, kept: KeptLoads | None = None) -> None:
        """``kept``: what was loaded before, in place of an empty lake in ``folder``."""
        self.s3 = MemoryS3(page)
        self.ledger = ledger("nyc_taxi", self.s3)
        self.source = self.bucket("source")
        self.kafka, self.end = self, 0
        self.max_bytes = MAX_MESSAGE_BYTES
        self.writer, self.topic_id = WRITER, "id"
        if kept is None:
            self.lake = lakes.make(folder)
            self.commit([], kind="epoch-start")
        else:
            self.lake, self.end = kept.image.again(), kept.end
            self.s3.objects.update(kept.objects)

    def bucket(self, name: str) -> Bucket:
        return Bucket(self.s3.as_client(), name)

    def batch_log(self, table: str) -> BatchLog:
        documents = Ledger(self.s3.as_client(), "s3://warehouse/nyc_taxi", FOLDER)
        return BatchLog(self.lake.table(table), documents)

    def ends(self, topic: str) -> dict[int, int]:
        return {0: self.end}

    def describe(self, topic: str) -> TopicDescription:
        return TopicDescription(self.topic_id, 1)

    def max_message_bytes(self, topic: str) -> int:
        return self.max_bytes

    def upload(self, name: str, rows: int = 3) -> None:
        lines = "\n".join([rides.TAXI_HEADER, *(rides.taxi_ride(f"{name} {row}") for row in range(rows))])
        place = "source", f"nyc_taxi/{name}.csv"
        if place in self.s3.objects:
            self.s3.earlier.setdefault(place, []).insert(0, self.s3.objects[place])
        self.s3.objects[place] = lines.encode()

    def withhold(self, source_id: str, rows: int) -> None:
        """Reject so many rows of a source, at the next offsets, as the stream does with withheld ones."""
        lakes.quarantine(
            self.lake,
            [
                {
                    "stage": "consumer", "reason": WITHHELD_REASON, "_kafka_partition": 0,
                    "_kafka_offset": self.end + row, "_source_id": source_id, "_source_row": row,
                }
                for row in range(rows)
            ],
        )  # fmt: skip
        self.commit([], rejected=rows)

    def commit(self, rows: list[tuple[str, int]], kind: str = "batch", rejected: int = 0) -> None:
        """Publish these (source id, row) at the next offsets, with as many behind them that are rejected."""
        data = [
            {
                "fare_amount": 1.0, "_kafka_partition": 0, "_kafka_offset": self.end + number,
                "_source_id": source, "_source_row": row,
            }
            for number, (source, row) in enumerate(rows)
        ]  # fmt: skip
        ranges = {0: (self.end, self.end + len(rows) + rejected)}
        self.end += len(rows) + rejected
        more = {"topic-id": TOPIC_ID, "writer": self.writer}
        summary = lakes.summary(kind, 1, {0: self.end}, ranges=ranges, more=more)
        table = pa.Table.from_pylist(data, schema=lakes.ROWS)
        self.lake.catalog.load_table(lakes.TABLE).append(table, snapshot_properties=summary)

    def location(self) -> str:
        """The table's metadata file, to which :meth:`restore` goes back."""
        found = self.lake.location(lakes.TABLE)
        assert found is not None
        return found

    def restore(self, location: str) -> None:
        """As a restored backup of the catalog's database."""
        with Session(cast("SqlCatalog", self.lake.catalog).engine) as session:
            session.execute(
                update(IcebergTables)
                .where(IcebergTables.table_name == lakes.TABLE.split(".")[1])
                .values(metadata_location=location)
            )
            session.commit()

    def _send(self, context: Any, _options: Any) -> None:
        plan = plans.plan_of(self.ledger, context["run_id"])
        for source in (source for source in plan["sources"] if not source["produced"]):
            rows = self.s3.objects["source", source["key"]].count(b"\n")
            if source.get("withheld"):
                self.withhold(source["source_id"], rows)
            else:
                self.commit([(source["source_id"], row) for row in range(rows)])

    def produce(self, run: str, dag_run: Any = None, **params: Any) -> dict[str, Any]:
        operator = ProduceOperator(task_id="produce", stream="nyc_taxi")
        operator.__dict__ |= {
            "tables": NewTables(),
            "platform_hook": self,
            "ledger": self.ledger,
            "submit": self._send,
        }
        asked = {"source_prefix": "nyc_taxi/", **params}
        return operator.execute(given(run_id=run, params=asked, dag_run=dag_run))

    def validate(self, run: str, **params: Any) -> dict[str, Any]:
        operator = ValidateRows(task_id="validate", stream="nyc_taxi")
        operator.__dict__ |= {"tables": NewTables(), "platform_hook": self, "ledger": self.ledger}
        with final_failures():
            return operator.work(given(run_id=run, params={"max_quarantined_percent": 50, **params}))

    def wait(self, run: str) -> None:
        sensor = PublishedSensor(task_id="wait_for_publish", stream="nyc_taxi")
        sensor.__dict__ |= {"tables": NewTables(), "platform_hook": SimpleNamespace(), "ledger": self.ledger}
        try:
            sensor.execute(given(run_id=run, params={}))
        except TaskDeferred:
            return

    def load(self, run: str, **params: Any) -> dict[str, Any]:
        """Produce, wait and validate; returns the short proof."""
        self.produce(run, **params)
        self.wait(run)
        return self.validate(run)

    def requests(self, run: str, **params: Any) -> Counter[str]:
        """What a load asks of S3, by kind."""
        before = self.s3.requests.copy()
        self.load(run, **params)
        return self.s3.requests - before


class OneBatch(Loads):
    """Sends all sources, of three rows each, in one batch."""

    def _send(self, context: Any, _options: Any) -> None:
        plan = plans.plan_of(self.ledger, context["run_id"])
        self.commit([(source["source_id"], row) for source in plan["sources"] for row in range(3)])


class KeptLoads:
    """What was loaded into a folder, for the next tests of a module."""

    def __init__(self, loads: Loads, folder: Path) -> None:
        loads.lake.close()
        self.image, self.objects, self.end = lakes.Image(folder), dict(loads.s3.objects), loads.end
        self.folder = folder
