"""A look at the sinks ends the task if they are as declared, and leaves everything else to a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.bases.operator import TRIGGER_FAIL_REPR
from airflow.triggers.base import TaskSuccessEvent

from sluice.airflow import callbacks
from sluice.airflow.channel import RunChannel
from sluice.airflow.connections import write_connection_file
from sluice.airflow.hook import StreamClients
from sluice.airflow.operators.supervision.sinks import SuperviseSinksOperator
from sluice.airflow.triggers.idle import sinks as looking
from sluice.airflow.triggers.idle.sinks import EXPORT_VALID, Exports, SinksTrigger
from sluice.clients.databases import results as databases
from sluice.clients.kafka.admin import TopicDescription
from sluice.config import connection, streams
from sluice.config.connection import Database
from sluice.config.notifications import Event
from sluice.core.errors import Unreachable
from sluice.ledger.history import History
from sluice.notify import telling
from tests.support import notifier
from tests.support.memory_s3 import MemoryS3
from tests.support.notifier import Recorder, rule
from tests.support.steps import given

STREAM, TASK = "isp_hits", "provision_sinks"
SPEC = streams.load(STREAM)
WHERE = Database("postgresql", "127.0.0.1", 5432, "results", "results", "very-secret")
CONFIG = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.2", "segment.ms": "3600000"}


class World:
    """Kafka, a database and the ledger, as a look and a worker meet them: all is as declared."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.memory = MemoryS3()
        self.platform = SimpleNamespace(kubernetes=None)
        self.partitions: dict[str, int] = {}
        self.config_of: dict[str, str] = dict(CONFIG)
        self.has_tables = True
        self.database_error: Exception | None = None
        self.changed: list[str] = []
        self.kafka = self.topics = self
        patch.setattr(databases, "is_provisioned", self.is_provisioned)
        patch.setattr(databases, "provision", self.make_tables)

    def history(self, name: str) -> History:
        return History(self.memory.as_client(), "s3://w/ledger", name)

    brief_history = history

    def is_provisioned(self, where: Database, *declared: Any) -> bool:
        assert where == WHERE
        if self.database_error is not None:
            raise self.database_error
        return self.has_tables

    def make_tables(self, where: Database, table: str, *declared: Any) -> str:
        self.changed.append(table)
        self.has_tables = True
        return "created"

    def find(self, topic: str) -> TopicDescription | None:
        declared = {sink.topic: sink.partitions for query in SPEC.queries.values() for sink in query.sinks}
        count = self.partitions.get(topic, declared[topic])
        return TopicDescription("id", count, 1) if count else None

    def config(self, topic: str) -> dict[str, str]:
        return self.config_of

    def provision(self, topic: Any) -> Any:
        self.changed.append(topic.name)
        return SimpleNamespace(message=lambda: "created")

    def close(self) -> None: ...

    def look(self) -> Any:
        """The return value of a task that ends, or the event of one that needs a worker."""
        trigger = SinksTrigger(stream=STREAM, about=TASK)
        clients = StreamClients(STREAM, "consumer")
        clients.__dict__["platform_hook"] = self
        trigger.requests.connect = lambda: clients

        async def first() -> Any:
            event = await anext(trigger.run())
            return (event.xcoms or {})["return_value"] if isinstance(event, TaskSuccessEvent) else event

        return asyncio.run(first())

    def reason(self) -> str:
        return str(self.look().payload["reason"])

    def work(self) -> dict[str, Any]:
        """What a worker does after such an event."""
        return self.resume("provision", {"event": {"reason": "why"}})

    def resume(self, method: str, values: dict[str, Any]) -> dict[str, Any]:
        """What a worker does that goes on with the task."""
        task = SuperviseSinksOperator(task_id=TASK, stream=STREAM)
        task.__dict__["platform_hook"] = self
        told = SimpleNamespace(task_id=TASK, dag_id=f"{STREAM}_stream", stream=STREAM)
        return dict(task.resume_execution(method, values, given(task=told, run_id="r1")))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv(connection.DIRECTORY_VARIABLE, str(tmp_path))
    monkeypatch.setenv("AIRFLOW_CONN_SLUICE_RESULTS", "postgres://results:very-secret@127.0.0.1:5432/results")
    write_connection_file("sluice_results", WHERE)
    made = World(monkeypatch)
    monkeypatch.setattr(callbacks, "PlatformHook", lambda: made)
    monkeypatch.setattr(looking, "EXPORTS", Exports())
    notifier.configure(tmp_path, monkeypatch, rule())
    yield made
    Recorder.clear()


def test_sinks_as_declared_end_the_task_and_change_nothing(world: World, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("sluice_results*")}
    result = world.look()
    assert len(result["sinks"]) == 5
    assert sum("all tables exist" in line for line in result["sinks"]) == 2
    assert world.changed == []
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert "very-secret" not in str(result)


def test_what_is_missing_or_differs_needs_a_worker(world: World, tmp_path: Path) -> None:
    world.has_tables = False
    assert "table is missing in" in world.reason()
    world.has_tables = True
    for count, said in ((0, "'isp-hits-zipcodes' is missing"), (999, "Refused: topic")):
        world.partitions = {"isp-hits-zipcodes": count}
        assert said in world.reason()
    world.partitions.clear()
    world.config_of["segment.ms"] = "7"
    assert "is missing, or differs" in world.reason()
    world.config_of["segment.ms"] = CONFIG["segment.ms"]
    (tmp_path / "sluice_results.toml").chmod(0o644)
    assert "connection sluice_results changed" in world.reason()
    world.work()
    assert len(world.look()["sinks"]) == 5


def test_what_cannot_be_looked_at_needs_a_worker_which_says_why(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.database_error = Unreachable("results is away")
    assert world.reason() == "Unreachable: results is away"
    world.database_error = None
    monkeypatch.delenv("AIRFLOW_CONN_SLUICE_RESULTS")
    assert "'sluice_results' not found" in world.reason()


@pytest.mark.parametrize("error", ["Trigger timeout", "Trigger failure"])
def test_a_triggerer_that_did_not_look_costs_a_worker_and_no_failure(world: World, error: str) -> None:
    world.has_tables = False
    assert len(world.resume(TRIGGER_FAIL_REPR, {"error": error})["sinks"]) == 5
    assert world.has_tables


def test_a_failure_that_was_told_ends_with_a_worker_that_tells_it(world: World) -> None:
    name = f"{STREAM}.{TASK}"
    note = notifier.note(Event.ALERT, STREAM, TASK, "SLU-231 no database", ("d", "r1"))
    telling.tell(world.history(name), note, "SLU-231", RunChannel({}))
    assert "was told that it failed" in world.reason()
    world.work()
    assert Recorder.messages()[1:] == [f"{STREAM} {TASK}: succeeds again"]
    assert len(world.look()["sinks"]) == 5


def test_on_a_cluster_a_worker_exports_each_connection_that_the_triggerer_does_not_know(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its account may not read the Secret: it knows what it handed to a worker, and whether that was done."""
    world.platform.kubernetes = SimpleNamespace(namespace="sluice")
    monkeypatch.setattr("sluice.airflow.connections.export", lambda *given: False)
    for _ in range(2):
        assert "connection sluice_results changed, or is not known" in world.reason()
    world.work()
    assert len(world.look()["sinks"]) == 5
    monkeypatch.setenv("AIRFLOW_CONN_SLUICE_RESULTS", "postgres://results:other@127.0.0.1:5432/results")
    monkeypatch.setattr("tests.unit.airflow.triggers.idle.test_sinks.WHERE", _with_password("other"))
    assert "connection sluice_results changed" in world.reason()
    world.work()
    assert len(world.look()["sinks"]) == 5


def test_a_recovery_is_told_and_green_though_the_ledger_cannot_be_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is recorded there spares later looks a worker, and no more."""
    world.platform.kubernetes = SimpleNamespace(namespace="sluice")
    monkeypatch.setattr("sluice.airflow.connections.export", lambda *given: False)
    note = notifier.note(Event.ALERT, STREAM, TASK, "SLU-231 no database", ("d", "r1"))
    telling.tell(world.history(f"{STREAM}.{TASK}"), note, "SLU-231", RunChannel({}))
    assert "not known to be exported" in world.reason()
    world.memory.refuse_puts = ["AccessDenied"] * 2
    assert len(world.work()["sinks"]) == 5
    assert (world.memory.refuse_puts, Recorder.messages()[1:]) == ([], [f"{STREAM} {TASK}: succeeds again"])
    # No look is green that cannot know it.
    assert "not known to be exported" in world.reason()
    world.work()
    assert len(world.look()["sinks"]) == 5


def test_what_was_exported_long_ago_is_exported_again() -> None:
    exports, now = Exports(), datetime(2026, 1, 1, tzinfo=UTC)
    assert not exports.is_done("a", "text", now - EXPORT_VALID, now), "not known to be of this text"
    done = now.replace(minute=1)
    assert exports.is_done("a", "text", done, done)
    assert not exports.is_done("b", "text", None, now)
    later = now + EXPORT_VALID * 1.01
    assert not exports.is_done("a", "text", done, later)
    assert not exports.is_done("a", "text", done, later), "the worker failed"
    assert exports.is_done("a", "text", later.replace(minute=59), later.replace(minute=59))


def _with_password(password: str) -> Database:
    return Database("postgresql", "127.0.0.1", 5432, "results", "results", password)
