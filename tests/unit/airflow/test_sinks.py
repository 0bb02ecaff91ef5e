"""The steps around a stream's queries: their sinks are made and handed over, and hold what the lake does."""

from __future__ import annotations

import os
import stat
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from airflow.models.connection import Connection
from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException

from sluice.clients import counts_topic, queries
from sluice.clients import database as databases
from sluice.clients.errors import Unreachable
from sluice.clients.ledger import Ledger
from sluice.clients.queries import Standing
from sluice.hooks import plan as plans
from sluice.hooks.handover import hand_over
from sluice.model import database, stream
from sluice.model.config import ConfigError
from sluice.model.process import ProcessState, ProcessStatus
from sluice.model.query_state import State, rule
from sluice.operators import check_sinks as checking
from sluice.operators import provision_sinks as provisioning
from sluice.operators.check_sinks import CheckSinksOperator
from sluice.operators.ensure_part import EnsurePartOperator
from sluice.operators.provision_sinks import ProvisionSinksOperator
from tests.support.memory_s3 import MemoryS3

SPEC = stream.load("isp_hits")
WHERE = database.Database("postgresql", "127.0.0.1", 5432, "counts", "counts", "very-secret")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(database.DIRECTORY_VARIABLE, str(tmp_path))
    return tmp_path


def test_a_connection_is_handed_over_for_its_user_alone(folder: Path) -> None:
    before = os.umask(0)
    try:
        assert hand_over("sluice_counts", WHERE)
    finally:
        os.umask(before)
    (path,) = folder.iterdir()
    assert (path.name, stat.S_IMODE(path.stat().st_mode)) == ("sluice_counts.toml", 0o600)
    assert database.load("sluice_counts") == WHERE
    assert not hand_over("sluice_counts", WHERE), "nothing is written where nothing changed"
    path.chmod(0o644)
    assert hand_over("sluice_counts", WHERE), "what others may read is written anew"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("value", ["", "/nowhere/at/all"])
def test_without_a_folder_nothing_is_handed_over(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(database.DIRECTORY_VARIABLE, value)
    with pytest.raises(ConfigError, match=r"SLUICE_CONNECTIONS_DIR is .*, which is no folder"):
        hand_over("sluice_counts", WHERE)


class World:
    """Airflow's connections, Kafka and a database, as the step that provisions meets them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said: list[str] = []
        self.tables: list[str] = []
        self.topics: list[Any] = []
        self.connections = {
            "sluice_counts": Connection(
                conn_id="sluice_counts", conn_type="postgres", host="127.0.0.1", port=5432,
                schema="counts", login="counts", password="very-secret",
            )
        }  # fmt: skip
        monkeypatch.setattr(provisioning.BaseHook, "get_connection", self._connection)
        monkeypatch.setattr(databases, "provision", self._provision)

    def _connection(self, name: str) -> Connection:
        if name not in self.connections:
            raise AirflowNotFoundException(name)
        return self.connections[name]

    def _provision(self, where: Any, table: str, query: Any, types: Any, key: str) -> str:
        assert where == WHERE
        assert key == f"isp_hits/{table.removeprefix('isp_hits_')}"
        assert set(types) == {*query.keys, *query.measures, "version"}
        self.tables.append(table)
        return "made"

    def provision(self, topic: Any) -> Any:
        """Kafka's."""
        self.topics.append(topic)
        return SimpleNamespace(sentence=lambda: "as declared")

    def run(self) -> dict[str, Any]:
        made = ProvisionSinksOperator(task_id="provision_sinks", stream="isp_hits")
        made.__dict__ |= {"platform_hook": SimpleNamespace(kafka=self)}
        made._cached_logger = SimpleNamespace(info=lambda text, *values: self.said.append(text % values))
        return made.work({})  # type: ignore[arg-type, typeddict-item]


def test_every_table_and_compacted_topic_is_made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    result = world.run()
    assert world.tables == ["isp_hits_windows", "isp_hits_audience"]
    assert [topic.name for topic in world.topics] == ["isp-hits-zipcodes", "isp-hits-windows"]
    assert all(topic.config["cleanup.policy"] == "compact" for topic in world.topics)
    assert len(result["sinks"]) == len(world.said) == 5
    assert database.load("sluice_counts") == WHERE
    assert "very-secret" not in f"{result} {world.said}"


def test_a_connection_that_airflow_does_not_know_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(monkeypatch)
    world.connections.clear()
    with pytest.raises(AirflowFailException, match="connection 'sluice_counts' does not exist; add it"):
        world.run()
    assert not list(folder.iterdir())


def test_a_connection_of_another_kind_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.connections["sluice_counts"] = Connection(conn_id="sluice_counts", conn_type="sqlite", host="x")
    with pytest.raises(ConfigError, match="connection sluice_counts: type 'sqlite' cannot take"):
        world.run()


class Process:
    """A runtime with one program, and its history."""

    def __init__(self, state: ProcessState, held: dict[str, Any] | None = None) -> None:
        self.state, self.hold = state, held
        self.started: list[str] = []
        self.recorded: list[tuple[str, dict[str, Any]]] = []

    def status(self, program: str) -> ProcessStatus:
        return ProcessStatus(program, self.state)

    def start(self, program: str) -> bool:
        self.started.append(program)
        return True

    def held(self) -> dict[str, Any] | None:
        return self.hold

    def record(self, kind: str, document: dict[str, Any], at: datetime) -> None:
        self.recorded.append((kind, document))

    def run(self) -> dict[str, Any]:
        made = EnsurePartOperator(task_id="ensure_queries", stream="isp_hits", part="queries")
        made.__dict__ |= {"platform_hook": SimpleNamespace(runtime=self), "history": self}
        return made.work({"run_id": "r"})  # type: ignore[arg-type, typeddict-item]


@pytest.mark.parametrize(
    ("state", "started"),
    [
        (ProcessState.STOPPED, True),
        (ProcessState.EXITED, True),
        (ProcessState.FATAL, True),
        (ProcessState.RUNNING, False),
        (ProcessState.STARTING, False),
    ],
)
def test_a_part_is_started_where_it_does_not_run(state: ProcessState, started: bool) -> None:
    process = Process(state)
    assert process.run() == {"program": "stream-isp_hits-queries", "started": started}
    assert process.started == ["stream-isp_hits-queries"] * started
    assert [kind for kind, _ in process.recorded] == ["start"] * started


def test_a_part_that_somebody_holds_is_left_alone() -> None:
    process = Process(ProcessState.STOPPED, {"who": "kim", "at": "noon", "why": "the database moves"})
    with pytest.raises(
        AirflowFailException, match="queries of isp_hits is on hold by kim since noon: the data"
    ):
        process.run()
    assert not process.started


COUNTS = {"00001|2026-03-01T10:02:00Z": (3,), "00002|2026-03-01T10:02:00Z": (4,)}
WINDOW = 1_772_359_320
AUDIENCE = {"00001|2026-03-01T00:00:00Z": (7, 3, 2)}


class Checked:
    """A lake and its sinks, each at a batch."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ledger = Ledger(MemoryS3(), "s3://w/ledger", "isp_hits")  # type: ignore[arg-type]
        self.batch = 5
        self.at: dict[str, list[int]] = {}
        self.topic = dict(COUNTS)
        self.table = dict(COUNTS)
        self.said: list[str] = []
        monkeypatch.setattr(plans, "produced", lambda ledger, run: ({}, [{"ranges": {"0": [0, 9]}}]))
        monkeypatch.setattr(checking, "connection", lambda name: WHERE)
        monkeypatch.setattr(checking, "PAUSE_SECONDS", 0.0)
        monkeypatch.setattr(queries, "standing", lambda table, declared: self._standing())
        monkeypatch.setattr(queries, "late", lambda table, standing, name: table_of(2))
        monkeypatch.setattr(
            queries, "touched", lambda *given: (WINDOW - 86_400, WINDOW) if given[2].window else None
        )
        monkeypatch.setattr(queries, "recount", lambda *given: self._lake(given[2]))
        monkeypatch.setattr(databases, "last_batch", lambda where, name, query: self._at("jdbc"))
        monkeypatch.setattr(databases, "counts", lambda where, table, query: self._rows(query))
        monkeypatch.setattr(counts_topic, "last_batch", lambda kafka, name, query, topic: self._at("kafka"))
        monkeypatch.setattr(counts_topic, "read", lambda kafka, topic, keys: self._records(topic))

    def _standing(self) -> Standing:
        states = {name: State(rule(q), batch=self.batch, source=77) for name, q in SPEC.queries.items()}
        return Standing(1, 0.0, 1, states, frozenset(states))

    def _at(self, kind: str) -> int:
        """Its batch: one of those that are to be told, or else the query's."""
        told = self.at.get(kind, [])
        return told.pop(0) if told else self.batch

    def _lake(self, query: Any) -> dict[str, tuple[int, ...]]:
        if len(query.measures) == 3:
            return dict(AUDIENCE)
        return dict(COUNTS) if query.window else {"00001": (3,), "00002": (4,)}

    def _rows(self, query: Any) -> pa.Table:
        held = AUDIENCE if len(query.measures) == 3 else self.table
        keys = [key.split("|") for key in held]
        return pa.table(
            {
                "zipcode": [zipcode for zipcode, _ in keys],
                "window_start": [datetime.fromisoformat(start.rstrip("Z")) for _, start in keys],
                **{name: [told[n] for told in held.values()] for n, name in enumerate(query.measures)},
            }
        )

    def _records(self, topic: str) -> dict[str, Any]:
        held = self.topic if topic.endswith("windows") else {"00001": (3,), "00002": (4,)}
        return {key: SimpleNamespace(measures={"hits": told[0]}) for key, told in held.items()}

    def run(self) -> dict[str, Any]:
        made = CheckSinksOperator(task_id="check_sinks", stream="isp_hits")
        lake = SimpleNamespace(table=lambda name: name)
        hook = SimpleNamespace(lake=lake, platform=SimpleNamespace(kafka=None))
        made.__dict__ |= {"platform_hook": hook, "ledger": self.ledger}
        say = lambda text, *values: self.said.append(text % values)  # noqa: E731
        made._cached_logger = SimpleNamespace(info=say, error=say)
        return made.work({"run_id": "r"})  # type: ignore[arg-type, typeddict-item]


def table_of(rows: int) -> pa.Table:
    return pa.table({"_kafka_offset": list(range(rows))})


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> Checked:
    return Checked(monkeypatch)


def test_sinks_that_hold_what_the_lake_does_are_side_by_side(checked: Checked) -> None:
    found = checked.run()
    assert found["windows"] == {
        "batch": 5,
        "late": 2,
        "sinks": {
            "jdbc isp_hits_windows": {"results": 2, "lake": 7, "sink": 7},
            "kafka isp-hits-windows": {"results": 2, "lake": 7, "sink": 7},
        },
    }
    assert "hits" not in found, "plain files hold no results"
    kept = checked.ledger.get("runs/r/sinks.json")
    assert kept is not None
    assert [query["query"] for query in kept["queries"]] == ["zipcodes", "windows", "audience"]
    assert "jdbc isp_hits_audience" in checked.said[0]


def test_what_differs_is_named_and_nothing_is_kept(checked: Checked) -> None:
    checked.topic["00001|2026-03-01T10:02:00Z"] = (4,)
    del checked.table["00002|2026-03-01T10:02:00Z"]
    with pytest.raises(AirflowFailException) as failure:
        checked.run()
    assert "query windows, jdbc isp_hits_windows: 1 of 2 results" in str(failure.value)
    assert "missing 00002|2026-03-01T10:02:00Z" in str(failure.value)
    assert "different 00001|2026-03-01T10:02:00Z (hits 4, in the lake hits 3)" in str(failure.value)
    assert checked.ledger.get("runs/r/sinks.json") is None


def test_results_of_other_windows_than_the_loads_are_not_its_matter(checked: Checked) -> None:
    checked.table["00009|2026-03-01T10:07:00Z"] = (1,)
    assert checked.run()["windows"]["sinks"]["jdbc isp_hits_windows"]["results"] == 2


def test_a_sink_that_is_behind_is_not_read(checked: Checked) -> None:
    """It has the batch by the time that it was read: what was read may be of before."""
    key, asked = "00001|2026-03-01T10:02:00Z", checked._at
    checked.table[key] = (1,)
    rows, was_read = checked._rows, []

    def at(kind: str) -> int:
        found = 4 if kind == "jdbc" and checked.table[key] == (1,) and not was_read else asked(kind)
        checked.table[key] = (3,)
        return found

    def read(query: Any) -> pa.Table:
        was_read.append(query)
        return rows(query)

    checked._at, checked._rows = at, read  # type: ignore[method-assign]
    assert checked.run()["windows"]["sinks"]["jdbc isp_hits_windows"]["sink"] == 7


def test_a_sink_that_went_on_while_it_was_read_is_read_again(checked: Checked) -> None:
    key, rows = "00001|2026-03-01T10:02:00Z", checked._rows
    checked.at["jdbc"] = [5, 6]
    checked.table[key] = (9,)

    def read(query: Any) -> pa.Table:
        found = rows(query)
        checked.table[key] = (3,)
        return found

    checked._rows = read  # type: ignore[method-assign]
    assert checked.run()["windows"]["sinks"]["jdbc isp_hits_windows"]["sink"] == 7


def test_a_sink_that_always_goes_on_is_not_taken_for_checked(checked: Checked) -> None:
    checked.at["kafka"] = [6] * 100
    with pytest.raises(Unreachable, match="query zipcodes went on 12 times while its sinks were read"):
        checked.run()
