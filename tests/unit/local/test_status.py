"""The streams' lines of `make status`."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from local.base import UnhealthyService
from local.status import observe, show
from local.status.observe import AIRFLOW, Known
from local.status.rows import StreamRow, last_event
from sluice.cli.airflow_api import AirflowError
from sluice.config import folders, streams
from sluice.config.stream import StreamSpec
from sluice.core.errors import Missing, Unreachable
from sluice.core.processes import exits
from sluice.core.processes.heartbeat import Heartbeat, HeartbeatState
from sluice.core.processes.status import ProcessState as S
from sluice.supervision.observer.client import ObserverClient
from sluice.supervision.observer.component_view import LastCheck
from sluice.supervision.observer.live import OBSERVER, Live
from sluice.supervision.rules.status import Health, HealthReport
from tests.support import observed
from tests.support.observed import event, process

SPEC = streams.load("nyc_taxi")
WIKI = streams.load("wiki_changes")
NOW = 1_800_000_000.0
AGO = NOW - 7
AWAY = "the observer at http://127.0.0.1:1 does not answer. Fix: see its log"
CHECKED = LastCheck("nyc_taxi_stream", False, NOW - 100, True)
STATES: Any = defaultdict(lambda: {"statename": "STARTING"})


def rows(spec: StreamSpec, lives: Mapping[str, Live], check: LastCheck | None = CHECKED) -> list[StreamRow]:
    known = Known({spec.name: lives}, {} if check is None else {spec.name: check}, {})
    return show.stream_rows(spec, known, STATES, NOW)


def consumer(check: LastCheck | None = CHECKED, at: float = AGO, **live: Any) -> StreamRow:
    (row,) = rows(SPEC, {"consumer": observed.consumer(SPEC, at, **live)}, check)
    return row


def ended(state: S, status: int = 0, description: str = "") -> Live:
    """The consumer's process has this state."""
    live = observed.consumer(SPEC, AGO, Health.DOWN)
    assert live.sample is not None
    now = replace(process(SPEC.program, state, AGO), exit_status=status, description=description)
    message = f"{now.message()}, exit code {status} after 3 s"
    report = HealthReport(Health.DOWN, message)
    return replace(live, sample=replace(live.sample, process=now), report=report)


def test_a_consumer_that_is_healthy() -> None:
    row = consumer(
        restarts=[NOW - 9000, NOW - 60], recorded=event("health", NOW - 4007, health="healthy"), lag=1200
    )
    assert [(cell.text, cell.is_ok) for cell in row.cells] == [
        ("RUNNING", None),
        ("healthy for 1 h", True),
        ("1,200", None),
        ("10", None),
        ("11 s ago", None),
        ("2", None),
        ("1 min ago", True),
        ("restart, 1 min ago", None),
    ]
    assert (row.name, row.is_ok, row.message, row.style) == ("nyc_taxi", True, "", "green")


@pytest.mark.parametrize(
    ("health", "ok", "style", "says"),
    [
        ("catching up", True, "green", False),
        ("suspended", True, "cyan", True),
        ("down", False, "yellow", True),
        ("flapping", False, "magenta", True),
        ("data lost", False, "red", True),
        ("fenced", False, "red", True),
    ],
)
def test_health_has_its_severitys_style_and_says_why(health: str, ok: bool, style: str, says: bool) -> None:
    row = consumer(report=HealthReport(Health(health), "why so"))
    assert (row.is_ok, row.style, row.message) == (ok, style, "why so" if says else "")


@pytest.mark.parametrize("paused", [True, False])
def test_what_ended_over_its_configuration_says_over_which_at_once(paused: bool) -> None:
    """Also if its supervision is paused: nothing restarts it, and a person has to correct it."""
    line = "SLU-101 ConfigError: stream.toml: unknown key 'x'"
    live = ended(S.EXITED, exits.CONFIGURATION, line)
    (row,) = rows(SPEC, {"consumer": live}, replace(CHECKED, paused=paused))
    assert (row.state.text, row.style, row.is_ok) == ("EXITED", "magenta", False)
    assert row.message.count(line) == 1


def test_an_observation_that_is_old_is_not_ok_and_says_how_old() -> None:
    row = consumer(at=NOW - 31)
    # The process may have another state by now, which supervisord knows.
    assert (row.state.text, row.health.text) == ("STARTING", "healthy, observed 31 s ago")
    assert (row.health.is_ok, row.is_ok, row.style) == (False, False, "red")


def test_what_was_never_observed_is_unknown() -> None:
    (row,) = rows(SPEC, {})
    assert (row.state.text, row.is_ok, row.message) == ("STARTING", False, "")
    assert {cell.text for cell in row.cells if cell.is_ok is False} == {"unknown"}
    assert (row.health.text, row.lag.text, row.restarts.text) == ("unknown",) * 3
    assert (row.rate.text, row.last_batch.text, row.last_event.text) == ("–",) * 3


def test_what_was_never_observed_and_is_stopped_and_paused_needs_no_supervision() -> None:
    """If the observer does not answer, what is not used need not be unpaused."""
    for state, is_ok in (("STOPPED", None), ("RUNNING", False)):
        known = Known({}, {SPEC.name: LastCheck("d", True)}, {})
        (row,) = show.stream_rows(SPEC, known, defaultdict(lambda: {"statename": state}), NOW)  # noqa: B023
        assert (row.supervision.is_ok, row.health.is_ok) == (is_ok, False)
        assert ("Fix: unpause" in row.message) is (is_ok is False)


def test_what_one_system_does_not_say_is_unknown() -> None:
    row = consumer(
        report=HealthReport(Health.UNKNOWN, "kafka: Kafka sleeps"), points=[], errors={"ledger": "S3 sleeps"}
    )
    assert (row.state.text, row.lag.text, row.is_ok) == ("RUNNING", "unknown", False)
    assert row.message == "kafka: Kafka sleeps; ledger: S3 sleeps"


@pytest.mark.parametrize(
    ("check", "text", "ok"),
    [
        (LastCheck("d", False, NOW - 360, False), "6 min ago", True),
        (LastCheck("d", False, NOW - 361, True), "6 min ago", False),
        (LastCheck("d", False), "never", False),
        (LastCheck("d", True, NOW - 10), "paused", False),
        (LastCheck("d"), "no DAG", False),
        (None, "unknown", False),
    ],
)
def test_supervision_is_missed_after_three_intervals(check: LastCheck | None, text: str, ok: bool) -> None:
    cell = consumer(check).supervision
    assert (cell.text, cell.is_ok) == (text, ok)


def test_a_stream_that_is_not_to_run_is_off_and_no_trouble() -> None:
    stopped = {"consumer": ended(S.STOPPED)}
    (row,) = rows(SPEC, stopped, LastCheck("d", True))
    assert (row.health.text, row.is_ok, row.message, row.style) == ("off", True, "", "dim")
    assert (row.supervision.text, row.supervision.is_ok) == ("paused", None)
    (row,) = rows(SPEC, stopped)
    assert (row.health.text, row.is_ok) == ("down for 1 h", False)


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (
            LastCheck("d", True, NOW - 3 * 86_400),
            "consumer: last check 3 d ago; supervision is paused. Fix: ",
        ),
        (LastCheck("d", True), "local/run airflow dags unpause d"),
        (LastCheck("d", False, NOW - 3 * 86_400), "supervision does not run. Fix: start what is unhealthy"),
        (LastCheck("d"), "consumer: never checked; Airflow has no DAG d yet"),
    ],
)
def test_a_component_at_work_without_checks_is_not_ok_and_says_how_to_change_it(
    check: LastCheck, words: str
) -> None:
    row = consumer(check)
    assert (row.is_ok, row.supervision.is_ok, row.style) == (False, False, "yellow")
    # The observer's health holds, whether supervision acts on it or not.
    assert (row.health.text, row.health.is_ok) == ("healthy for 1 h", True)
    assert words in row.message


def test_a_pause_hides_no_health_that_is_worse() -> None:
    row = consumer(replace(CHECKED, paused=True), report=HealthReport(Health.DATA_LOST, "why so"))
    assert (row.style, row.is_ok, "why so" in row.message) == ("red", False, True)


@pytest.mark.parametrize(
    ("recorded", "restarts", "words"),
    [(None, [], "none"), (10, [50], "health down, 10 s ago"), (60, [90, 50], "restart, 50 s ago")],
)
def test_the_last_event_in_words(recorded: float | None, restarts: list[float], words: str) -> None:
    health = None if recorded is None else event("health", NOW - recorded, health="down")
    assert last_event(Live(recorded=health, restarts=[NOW - ago for ago in restarts]), NOW) == words


@pytest.mark.parametrize(
    ("health", "ok", "style"),
    [
        ("healthy", True, "green"),
        ("fenced", True, "green"),
        ("suspended", True, "cyan"),
        ("source unavailable", False, "red"),
    ],
)
def test_another_component_has_a_heartbeat_in_the_place_of_a_batch(health: str, ok: bool, style: str) -> None:
    lives = {name: live for (_, name), live in observed.streams([WIKI], AGO).lives.items()}
    live = observed.component(WIKI, "producer", AGO, Health(health))
    assert live.sample is not None
    heartbeat = Heartbeat(NOW - 3, 7, HeartbeatState.STREAMING, NOW - 500)
    lives["producer"] = replace(live, sample=replace(live.sample, heartbeat=heartbeat))
    row = next(row for row in rows(WIKI, lives) if row.component == "producer")
    assert (row.name, row.to_json()["component"]) == ("wiki_changes producer", "producer")
    assert [row.lag.text, row.rate.text, row.last_batch.text] == ["–", "–", "heartbeat 3 s ago"]
    assert (row.is_ok, row.style) == (ok, style)


def made(tmp_path: Path, **more: Any) -> Any:
    """A stack that runs."""
    return SimpleNamespace(
        is_running=lambda: True,
        daemon=SimpleNamespace(states=lambda: STATES),
        context=SimpleNamespace(external=None, rest_catalog=None),
        ports={"airflow": 1},
        home=SimpleNamespace(root=tmp_path, secrets_file=tmp_path, platform=tmp_path),
        **more,
    )


@pytest.fixture
def healthy_services(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(show.health, "rows", lambda context, states: [])


@pytest.mark.usefixtures("healthy_services")
@pytest.mark.parametrize("as_json", [True, False])
def test_a_stream_with_a_wrong_declaration_hides_no_other(
    as_json: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rides").mkdir()
    (tmp_path / "rides" / "stream.toml").write_text("nonsense = 1")
    monkeypatch.setenv(folders.VARIABLE, str(tmp_path))
    monkeypatch.setattr(observe, "read", lambda stack, specs: Known({}, {}, {}))
    assert show.main(made(tmp_path), as_json=as_json) == 1
    said = capsys.readouterr().out
    assert "rides/stream.toml: " in said
    assert "'nonsense'" in said
    assert "nyc_taxi" in said
    if as_json:
        assert list(json.loads(said)["invalid"]) == ["rides"]


class FakeAirflow:
    """Answers as Airflow's REST API; `error`: instead."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error, self.asked = error, list[str]()

    def request(self, method: str, path: str, **options: Any) -> Any:
        self.asked.append(path)
        if self.error:
            raise self.error
        if "/dagRuns" not in path:
            return {"is_paused": False}
        return {"dag_runs": [{"end_date": "2027-01-15T07:58:20+00:00", "state": "success"}]}


@pytest.mark.usefixtures("healthy_services")
def test_an_observer_that_does_not_answer_is_one_line_and_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which processes run is supervisord's to know, and whether they are supervised Airflow's."""
    monkeypatch.setattr(show.time, "time", lambda: NOW)
    asked = []

    class Away:
        def stream(self, name: str) -> Any:
            asked.append(name)
            raise Unreachable(AWAY)

    monkeypatch.setattr(ObserverClient, "open", lambda platform: Away())
    stack = made(tmp_path, platform=lambda role: None, airflow=lambda timeout: FakeAirflow())
    assert show.main(stack) == 1
    said = capsys.readouterr().out
    assert said.count("does not answer") == 1
    assert f"\nobserver: {AWAY}\n" in said
    assert len(asked) == 1, "the others would wait for it too"
    assert show.main(stack, services_only=True) == 0
    capsys.readouterr()
    assert show.main(stack, as_json=True) == 1
    document = json.loads(capsys.readouterr().out)
    assert (list(document["errors"]), document["observed_seconds_ago"]) == ([OBSERVER], None)
    row = document["streams"][0]
    assert (row["state"]["text"], row["health"]["text"]) == ("STARTING", "unknown")
    assert row["supervision"] == {"text": "1 min ago", "is_ok": True}


def test_a_stream_that_the_observer_does_not_know_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    class Client:
        def stream(self, name: str) -> Any:
            if name == SPEC.name:
                raise Missing("the observer does not know nyc_taxi")
            return {"consumer": observed.consumer(WIKI, AGO)}

    monkeypatch.setattr(ObserverClient, "open", lambda platform: Client())
    stack: Any = SimpleNamespace(platform=lambda role: None, airflow=lambda timeout: FakeAirflow())
    known = observe.read(stack, [SPEC, WIKI])
    assert known.observed_at() == AGO
    assert known.lives[SPEC.name]["consumer"].errors == {OBSERVER: "the observer does not know nyc_taxi"}
    assert not known.errors
    (row,) = show.stream_rows(SPEC, known, STATES, NOW)
    assert (row.is_ok, "does not know nyc_taxi" in row.message) == (False, True)


def test_airflow_says_whether_a_stream_is_supervised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ObserverClient, "open", lambda platform: SimpleNamespace(stream=lambda name: {}))

    def read(airflow: FakeAirflow) -> Known:
        stack: Any = SimpleNamespace(platform=lambda role: None, airflow=lambda timeout: airflow)
        return observe.read(stack, [SPEC, WIKI])

    assert read(FakeAirflow()).checks[SPEC.name] == CHECKED
    gone = AirflowError("GET", "/dags/x", 404, "")
    assert read(FakeAirflow(gone)).checks[SPEC.name] == LastCheck("nyc_taxi_stream")
    away = FakeAirflow(UnhealthyService("Airflow: no answer"))
    known = read(away)
    assert (known.checks, known.errors, len(away.asked)) == ({}, {AIRFLOW: "Airflow: no answer"}, 1)
