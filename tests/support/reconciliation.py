"""A lake whose objects a test can damage, and the steps of its reconciliation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from airflow.triggers.base import TaskSuccessEvent

from sluice.airflow.failures import final_failures
from sluice.airflow.hook import StreamClients
from sluice.airflow.operators.base import BACKSTOP
from sluice.airflow.operators.maintenance.reconciliation import (
    ReconciliationOperator,
    VerifyTableOperator,
)
from sluice.clients.lake.catalog import Lake
from sluice.clients.lake.commits import ancestors
from sluice.clients.s3.objects import Bucket, Entry
from sluice.config.platform_sections.catalog import Catalog
from sluice.config.platform_sections.lake import BY_CATALOG, BY_SLUICE
from sluice.config.platform_sections.lake import Lake as LakeSection
from sluice.config.sections.maintenance import Maintenance
from sluice.config.sections.supervision import Supervision
from sluice.core.findings import FindingName
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables.rewrites import REWRITES, Rewrites
from sluice.core.tables.storage import REWRITE_ID
from sluice.core.tables.without_record import WithoutRecord
from sluice.ledger.batch_log import FOLDER, document_of, published_key
from sluice.ledger.batches import BatchLog
from sluice.ledger.documents import Ledger
from sluice.ledger.history import History
from sluice.ledger.known_tables import KnownTables
from tests.support import lake as lakes
from tests.support.memory_s3 import MemoryS3
from tests.support.steps import carried_out, given

BATCH = 4


class World:
    """A stream of one partition, with batches of BATCH records; what ``reads`` counts was read. ``lake``: one
    that is in the folder already."""

    def __init__(self, folder: Path, lake: Lake | None = None) -> None:
        self.folder, self.lake = folder, lake or lakes.make(folder)
        self.memory, self.end, self.runs = MemoryS3(), 0, 0
        self.rejected = self.malformed = 0
        self.history = History(self.memory.as_client(), "s3://w/ledger", "nyc_taxi")
        self.waited: list[float] = []
        # What S3 answers to a deletion.
        self.refuses_deletion: Exception | None = None
        # Whether the platform file leaves maintenance to the catalog; whether the bucket can be listed.
        self.is_managed, self.bucket_lists = False, True
        self.now = time.time()
        self.names = {"table": lakes.TABLE, "quarantine_table": lakes.QUARANTINE}
        self.meanwhile: Callable[[], None] = lambda: None
        self.kafka = SimpleNamespace(
            describe=lambda topic: SimpleNamespace(partitions=1, id="t"),
            group_offsets=lambda group, topic, partitions: {0: self.end},
            begins=lambda topic, partitions: {0: 0},
            ends=lambda topic: {0: self.end},
        )

    def batch(
        self, reject: int | None = None, lie: int = 0, records: int = BATCH, marker: int | None = None
    ) -> None:
        """``reject``: number of its record that goes to quarantine; ``lie``: offsets that its summary leaves
        out; ``marker``: number of its offset that has no record."""
        start, self.end = self.end, self.end + records
        rows = [(0, start + n) for n in range(records) if n not in (reject, marker)]
        before = {"malformed": str(self.malformed)}
        said = lakes.summary("batch", 1, {0: self.end}, {0: 0}, {0: (start, self.end - lie)}, before)
        if marker is not None:
            at = OffsetRanges.of({0: [(start + marker, start + marker + 1)]})
            said |= WithoutRecord(at).properties()
        lakes.append(self.lake, rows, said)
        if reject is not None:
            row = dict.fromkeys(lakes.BAD_ROWS.names)
            lakes.quarantine(
                self.lake,
                [
                    {
                        **row,
                        "stage": "consumer",
                        "reason": "r",
                        "_kafka_partition": 0,
                        "_kafka_offset": start + reject,
                    }
                ],
            )

    def rejecting(
        self, malformed: int, on_purpose: int = 0, reason: str = "r", source: str | None = None
    ) -> None:
        """A batch that has nothing but these; ``reason`` and ``source`` are of all of them."""
        count, start = malformed + on_purpose, self.end
        self.end += count
        before = {"rejected": str(self.rejected), "malformed": str(self.malformed), "rejected-by": ""}
        more = {**before, "writer": "w1", "batch-id": str(start)}
        lakes.append(
            self.lake, [], lakes.summary("batch", 1, {0: self.end}, {0: 0}, {0: (start, self.end)}, more)
        )
        self.rejected, self.malformed = self.rejected + count, self.malformed + malformed
        after = {
            "rejected": str(self.rejected),
            "malformed": str(self.malformed),
            "rejected-by": f"w1/{start}",
        }
        row = {
            **dict.fromkeys(lakes.BAD_ROWS.names),
            "stage": "consumer",
            "reason": reason,
            "_kafka_partition": 0,
            "_source_id": source,
        }
        rows = [{**row, "_kafka_offset": start + number} for number in range(count)]
        lakes.quarantine(self.lake, rows, {f"sluice.{key}": value for key, value in after.items()})

    def rewrite(self, offsets: list[int], properties: dict[str, str], fare: float = 1.0) -> None:
        """All files as one, with these rows."""
        values = [(fare, 0, offset, "a" * 16, offset) for offset in offsets]
        rows = [dict(zip(lakes.ROWS.names, row, strict=True)) for row in values]
        table = self.lake.catalog.load_table(lakes.TABLE)
        table.overwrite(pa.Table.from_pylist(rows, schema=lakes.ROWS), snapshot_properties=properties)

    def compact(self, offsets: list[int] | None = None) -> None:
        self.rewrite(list(range(self.end)) if offsets is None else offsets, {REWRITE_ID: "r"})

    def batch_log(self, name: str) -> BatchLog:
        return BatchLog(self.lake.table(name), Ledger(self.memory.as_client(), "s3://lake/nyc_taxi", FOLDER))

    def record(self) -> None:
        """As the writer does at every tenth batch: all batches that the table keeps and the log does not."""
        log = self.batch_log(lakes.TABLE)
        known = {one.batch.snapshot_id for one in log.newest(1000)} - set(log.on_main)
        found = [batch for number, batch in log.on_main.items() if number not in known][::-1]
        log.documents.put(published_key(found), document_of(found))

    def expire(self) -> None:
        """All snapshots of ``main`` but the newest."""
        table = self.lake.catalog.load_table(lakes.TABLE)
        older = [snapshot.snapshot_id for snapshot in ancestors(table)][1:]
        table.maintenance.expire_snapshots().by_ids(older).commit()

    def entries(self, uri: str) -> list[Entry]:
        path = Path(uri.removeprefix("file://"))
        at = datetime(2026, 1, 1, tzinfo=UTC)
        return [Entry("k", True, False, "e", path.stat().st_size, at)] if path.exists() else []

    def run(
        self,
        kind: type[ReconciliationOperator] = VerifyTableOperator,
        full: bool = False,
        run_id: str | None = None,
    ) -> dict[str, Any]:
        """A run of its own but for ``run_id``: then that one, cleared."""
        self.runs += 1
        context = given(params={"full": full}, run_id=run_id or f"run-{self.runs}")
        with final_failures():
            return dict(carried_out(self.step(kind), context, self.fire))

    def step(self, kind: type[ReconciliationOperator]) -> ReconciliationOperator:
        made = kind(task_id="step", stream="nyc_taxi")
        made.__dict__ |= self.systems()
        return made

    def systems(self) -> dict[str, Any]:
        """What a step, or a look before it, has in place of its clients."""
        return {
            "platform_hook": SimpleNamespace(
                lake=self.lake,
                platform=SimpleNamespace(
                    lake=LakeSection(
                        "s3://w",
                        "s3://l",
                        Catalog("rest"),
                        BY_CATALOG if self.is_managed else BY_SLUICE,
                        bucket_lists=self.bucket_lists,
                    )
                ),
                kafka=self.kafka,
                history=lambda name: self.history,
                batch_log=self.batch_log,
                ledger=lambda stream: self.history,
                close=lambda: None,
                s3=self.memory.as_client(),
                bucket=lambda name: Bucket(self.memory.as_client(), name),
                remove_objects=self.remove,
                as_maintenance=self.memory.as_client,
            ),
            "tables": KnownTables(self.lake, self.history, lambda: self.now),
            "ledger": self.history,
            "spec": SimpleNamespace(
                **self.names,
                name="nyc_taxi",
                topic=SimpleNamespace(name="t"),
                supervision=Supervision(),
                maintenance=Maintenance(),
            ),
            "entries": self.entries,
        }

    def look(
        self,
        kind: type[ReconciliationOperator] = VerifyTableOperator,
        later: timedelta = timedelta(),
        run_type: str = "scheduled",
        full: bool = False,
        try_number: int = 1,
    ) -> dict[str, Any]:
        """What the triggerer makes of a run, so much ``later``: the return value of a task that it ends, or
        ``{"reason": …}`` of one that it leaves to a worker."""
        trigger = kind(task_id="step", stream="nyc_taxi").trigger()
        clients = StreamClients("nyc_taxi", "consumer")
        clients.__dict__ |= self.systems()
        trigger.requests.connect = lambda: clients
        trigger.clock = lambda: time.time() + later.total_seconds()
        context = {"params": {"full": full}, "dag_run": SimpleNamespace(run_type=run_type)}
        trigger.task_instance = SimpleNamespace(  # type: ignore[assignment]
            task=None, task_id="step", get_template_context=lambda: context, try_number=try_number
        )

        async def first() -> dict[str, Any]:
            event = await anext(trigger.run())
            found = event.xcoms if isinstance(event, TaskSuccessEvent) else {"return_value": event.payload}
            return cast("dict[str, Any]", (found or {})["return_value"])

        return asyncio.run(first())

    def remove(self, bucket: str, keys: Iterable[str]) -> None:
        if self.refuses_deletion:
            raise self.refuses_deletion
        for key in keys:
            del self.memory.objects[bucket, key]

    def fire(self, waits: TaskDeferred) -> dict[str, Any]:
        """A pause without a worker, within what the operator says."""
        assert isinstance(waits.trigger, TimeDeltaTrigger)
        assert waits.timeout in VerifyTableOperator.waits
        self.waited.append((waits.timeout - BACKSTOP).total_seconds())
        self.meanwhile()
        return {}

    def finds(self, *names: FindingName, **how: Any) -> str:
        """Run, and fail with these findings."""
        with pytest.raises(AirflowFailException) as failure:
            self.run(**how)
        text = str(failure.value)
        assert {name for name in FindingName if f"{name}: " in text} == set(names), text
        assert "SLU-430" in text
        assert "Fix: " in text
        return text

    def data_files(self) -> list[Path]:
        return sorted(
            self.folder.glob("warehouse/raw*/nyc_taxi/data/*.parquet"), key=lambda p: p.stat().st_mtime_ns
        )

    def manifests(self) -> list[Path]:
        snapshot = self.lake.table(lakes.TABLE).current_snapshot()
        assert snapshot is not None
        found = snapshot.manifests(self.lake.table(lakes.TABLE).io)
        return [Path(one.manifest_path.removeprefix("file://")) for one in found]

    def snapshot_id(self) -> int:
        snapshot = self.lake.table(lakes.TABLE).current_snapshot()
        assert snapshot is not None
        return snapshot.snapshot_id

    def name_rewrite(self, rewrite: str) -> None:
        """As the commit of a rewrite does."""
        table = self.lake.catalog.load_table(lakes.TABLE)
        named = Rewrites.of(table.properties).more(rewrite)
        table.transaction().set_properties({REWRITES: named.to_json()}).commit_transaction()

    def manifest_list(self) -> Path:
        snapshot = self.lake.table(lakes.TABLE).current_snapshot()
        assert snapshot is not None
        return Path(snapshot.manifest_list.removeprefix("file://"))
