"""Every step over a stream whose table is gone: red, and no step takes it for one that never was."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset, BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from sluice.airflow import operators as package
from sluice.airflow.hook import StreamClients
from sluice.airflow.operators.base import (
    ComponentOperator,
    InvalidDeclarationOperator,
    StepMixin,
    StreamOperator,
)
from sluice.airflow.operators.change.approval import ApproveChangeOperator
from sluice.airflow.operators.jobs.spark_application import JobApplication
from sluice.airflow.operators.jobs.spark_job import SparkJobOperator
from sluice.airflow.operators.load.asset_event import EmitAssetEventOperator
from sluice.airflow.operators.load.ensure import EnsureComponentOperator
from sluice.airflow.operators.load.interval import CheckCorrectedFilesOperator, ProduceIntervalOperator
from sluice.airflow.operators.load.produce_feed import ProduceFeedOperator
from sluice.airflow.operators.load.provision import ProvisionSinksOperator
from sluice.airflow.operators.maintenance.connections import CheckConnectionsOperator
from sluice.airflow.operators.maintenance.reconciliation import (
    CheckFilesOperator,
    ObserveOffsetsOperator,
    ReconciliationOperator,
    UnchangedOperator,
    VerifyTableOperator,
)
from sluice.airflow.operators.maintenance.removal import RecordMaintenanceOperator, RecordMetadataOperator
from sluice.airflow.operators.quarantine import QuarantineOperator
from sluice.airflow.operators.supervision.drill import DrillOperator
from sluice.airflow.operators.supervision.sinks import SinksProvisionedOperator, SuperviseSinksOperator
from sluice.airflow.operators.supervision.supervise import SuperviseOperator
from sluice.airflow.triggers.published import PublishedTrigger
from sluice.airflow.triggers.wait import Outcome
from sluice.clients.lake.catalog import Lake
from sluice.config import streams
from sluice.core.errors import Refused
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.processes.status import ProcessState, ProcessStatus
from sluice.core.tables.known_tables import CREATED_AT
from sluice.ledger.history import History
from sluice.ledger.known_tables import KnownTables
from sluice.supervision.observer.sampler import Sampler
from sluice.supervision.rules.sample import LAKE
from tests.support import lake as lakes
from tests.support.memory_s3 import MemoryS3
from tests.support.raising import raising
from tests.support.steps import given


def operators() -> set[type[BaseOperator]]:
    """All classes of steps that sluice.airflow.operators has."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    found, waiting = set[type[BaseOperator]](), [BaseOperator]
    while waiting:
        waiting += (kinds := waiting.pop().__subclasses__())
        found |= {kind for kind in kinds if kind.__module__.startswith(f"{package.__name__}.")}
    return found - BASES


BASES: set[type[BaseOperator]] = {
    StreamOperator,
    ComponentOperator,
    SparkJobOperator,
    QuarantineOperator,
    ReconciliationOperator,
    UnchangedOperator,
}
# Why none of them is misled is said where ``checked`` is None.
UNCHECKED: set[type[BaseOperator]] = {
    EnsureComponentOperator,
    ProvisionSinksOperator,
    SuperviseSinksOperator,
    CheckCorrectedFilesOperator,
    RecordMaintenanceOperator,
    InvalidDeclarationOperator,
    SuperviseOperator,
    ObserveOffsetsOperator,
    VerifyTableOperator,
    CheckFilesOperator,
}
# A person is asked, a drill run, a job made, connections looked at; none reads a table before a step that
# does.
NO_STEPS: set[type[BaseOperator]] = {
    ApproveChangeOperator,
    CheckConnectionsOperator,
    DrillOperator,
    JobApplication,
    SinksProvisionedOperator,
}
STEPS = sorted(operators() - UNCHECKED - NO_STEPS, key=lambda kind: kind.__name__)
ARGUMENTS: dict[type, dict[str, Any]] = {EmitAssetEventOperator: {"asset": Asset("a")}}
SPEC = streams.load("nyc_taxi")


class World:
    """A stream with a batch, whose table the ledger knows."""

    def __init__(self, folder: Path) -> None:
        self.lake, self.memory = lakes.make(folder), MemoryS3()
        lakes.append(self.lake, [(0, 0)], lakes.summary("batch", 1, {0: 1}))
        self.history = History(self.memory.as_client(), "s3://w/ledger", "nyc_taxi")
        self.tables.note(lakes.TABLE, lakes.QUARANTINE)

    @property
    def tables(self) -> KnownTables:
        return KnownTables(self.lake, self.history)

    def step(self, kind: Any) -> Any:
        made = kind(task_id="step", stream="nyc_taxi", **ARGUMENTS.get(kind, {}))
        platform = SimpleNamespace(lake=SimpleNamespace(is_maintained_by_catalog=False))
        hook = SimpleNamespace(lake=self.lake, history=lambda name: self.history, platform=platform)
        made.__dict__ |= {
            "platform_hook": hook,
            "tables": self.tables,
            "ledger": self.history,
            "history": self.history,
        }
        return made


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_step_says_which_tables_it_needs_or_is_named_here() -> None:
    assert {kind for kind in operators() if not issubclass(kind, StepMixin)} == NO_STEPS
    steps = [kind for kind in operators() if issubclass(kind, StepMixin)]
    assert {kind for kind in steps if kind.checked is None} == UNCHECKED
    assert {ProduceIntervalOperator, ProduceFeedOperator, EmitAssetEventOperator} <= set(STEPS)


@pytest.mark.parametrize("kind", STEPS)
def test_a_step_over_a_lost_table_is_red(world: World, kind: Any) -> None:
    world.lake.catalog.drop_table(lakes.TABLE)
    params = {"compact_before": "2026-01-01", "action": "replay"}
    with raising(AirflowFailException, "SLU-223", lakes.TABLE, "Table lost by the catalog"):
        world.step(kind).execute(given(run_id="r", params=params, dag_run=SimpleNamespace(run_after=None)))
    assert not [key for _, key in world.memory.objects if "/runs/" in key or "/history/" in key]


@pytest.mark.parametrize("kind", STEPS)
def test_a_step_over_a_table_of_another_program_is_red(world: World, kind: Any) -> None:
    world.lake.catalog.drop_table(lakes.TABLE)
    world.lake.catalog.create_table(lakes.TABLE, lakes.ROWS)
    with raising(AirflowFailException, "SLU-225", lakes.TABLE, "Table replaced by another one"):
        world.step(kind).execute(given(run_id="r", params={"action": "replay"}))


def test_a_quarantine_that_never_had_a_record_is_not_lost_though_its_metadata_was_recorded(
    world: World,
) -> None:
    recorded = world.step(RecordMetadataOperator).execute(given(run_id="r"))
    assert lakes.QUARANTINE in recorded
    world.tables.check(lakes.TABLE, lakes.QUARANTINE)
    world.lake.catalog.drop_table(lakes.TABLE)
    with raising(Refused, lakes.TABLE, "is not in the catalog"):
        world.tables.check(lakes.TABLE, lakes.QUARANTINE)


def test_a_table_of_a_stream_without_a_record_is_not_forgotten_however_old_it_is(tmp_path: Path) -> None:
    lake = lakes.make(tmp_path)
    lakes.append(lake, [], lakes.summary("epoch-start", 1, {0: 0}))
    with lake.catalog.load_table(lakes.TABLE).transaction() as transaction:
        transaction.set_properties({CREATED_AT: "1"})

    def tables() -> KnownTables:
        return KnownTables(lake, History(MemoryS3().as_client(), "s3://w/ledger", "nyc_taxi"))

    tables().check(lakes.TABLE)
    lakes.append(lake, [(0, 0)], lakes.summary("batch", 1, {0: 1}))
    with raising(Refused, lakes.TABLE, "Ledger lost"):
        tables().check(lakes.TABLE)


def test_a_wait_for_a_lost_table_ends_at_once(world: World) -> None:
    trigger = PublishedTrigger(
        stream="nyc_taxi",
        component="consumer",
        deadline=0,
        poll_interval=1,
        grace=1,
        expected=OffsetRanges().to_json(),
    )
    clients = StreamClients("nyc_taxi", "consumer")
    clients.__dict__ |= {"platform_hook": SimpleNamespace(lake=world.lake), "tables": world.tables}
    assert trigger.check(clients).outcome is not Outcome.PERMANENT
    world.lake.catalog.drop_table(lakes.TABLE)
    clients.__dict__["tables"] = world.tables
    progress = trigger.check(clients)
    assert progress.outcome is Outcome.PERMANENT
    assert "Table lost by the catalog" in progress.message


@pytest.mark.parametrize("name", [lakes.TABLE, lakes.QUARANTINE])
def test_the_health_of_a_stream_without_its_table_is_unknown_and_says_why(world: World, name: str) -> None:
    row = {"stage": "consumer", "reason": "r", "_kafka_partition": 0, "_kafka_offset": 1}
    lakes.quarantine(world.lake, [dict.fromkeys(lakes.BAD_ROWS.names) | row])
    world.tables.note(lakes.QUARANTINE)
    kafka = SimpleNamespace(
        describe=lambda topic: SimpleNamespace(partitions=1, id="T"),
        begins=lambda topic, count: {0: 0},
        ends=lambda topic, count: {0: 1},
    )
    process = ProcessStatus("stream-nyc_taxi", ProcessState.RUNNING, 7, 1.0)
    runtime = SimpleNamespace(status=lambda program: process)

    def observe() -> dict[str, str]:
        made: Any = Sampler(kafka, lambda: world.tables, runtime, SPEC, "consumer")  # type: ignore[arg-type]
        return dict(made.observe(2.0).errors)

    assert observe() == {}
    world.lake.catalog.drop_table(name)
    assert "Table lost by the catalog" in observe()[LAKE]


def test_a_new_stream_is_new_and_asks_the_ledger_once_a_minute(tmp_path: Path) -> None:
    memory, now = MemoryS3(), 1e9
    history = History(memory.as_client(), "s3://w/ledger", "nyc_taxi")
    tables = KnownTables(lakes.empty(tmp_path), history, lambda: now)
    for _ in range(5):
        tables.check(lakes.TABLE)
    # The documents of the name; the newest proof, verified state and record of metadata.
    assert memory.requests == {"LIST": 4}
    now += 61
    for _ in range(5):
        tables.check(lakes.TABLE)
    assert memory.requests == {"LIST": 8}


def test_a_known_table_costs_one_request_however_many_there_were(world: World) -> None:
    for number in range(50):
        world.history.put(f"tables/raw.other{number}/u.json", {})
    world.memory.requests.clear()
    tables = world.tables
    for _ in range(5):
        tables.check(lakes.TABLE)
    assert world.memory.requests == {"LIST": 1}


def test_a_lake_that_does_not_answer_is_not_a_new_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(lake: Lake, name: str) -> None:
        raise ConnectionError("no answer")

    monkeypatch.setattr(Lake, "found", away)
    with pytest.raises(ConnectionError):
        world.tables.check(lakes.TABLE)
