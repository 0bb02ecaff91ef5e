"""Health of a component with heartbeats: one row per case, and what holds for any values."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.config.sections.supervision import Supervision
from sluice.core.processes.heartbeat import HEARTBEAT_INTERVAL, Heartbeat
from sluice.core.processes.heartbeat import HeartbeatState as State
from sluice.core.processes.restarts import RestartHistory
from sluice.core.processes.status import Problem, ProcessExit, ProcessStatus
from sluice.core.processes.status import ProcessState as S
from sluice.supervision.rules.component import CONFIRM_SECONDS, assess_component
from sluice.supervision.rules.sample import Sample
from sluice.supervision.rules.status import WELL, Health, HealthReport

NOW = 100_000.0
# The declared defaults: stalled after 60 s without a heartbeat, 90 s for the first one, 3 restarts in 1800 s.
POLICY = Supervision()
EMPTY = RestartHistory()
V = Health


def process(state: S = S.RUNNING, ago: float = 5_000, pid: int | None = 7, status: int = 0) -> ProcessStatus:
    """Started so many seconds ago."""
    return ProcessStatus("stream-x-producer", state, pid if state is S.RUNNING else None, NOW - ago, status)


def heartbeat(
    ago: float = 3, state: State = State.STREAMING, since: float = 500, pid: int = 7, **more: Any
) -> Heartbeat:
    """Given so many seconds ago, in a state that began ``since`` seconds ago."""
    return Heartbeat(at=NOW - ago, pid=pid, state=state, since=NOW - since, ends={0: 5}, **more)


def times(count: int, ago: float = 100) -> RestartHistory:
    return RestartHistory(restarts=[NOW - ago - number for number in range(count)])


DOWN = process(S.EXITED, status=1)
EXIT = ProcessExit(NOW - 30, 1, 2.0)
# The runtime has restarted it three times, and restarts it again in 20 s.
LOOPING = replace(
    process(S.BACKOFF, ago=32, status=1),
    restarts=(NOW - 60, NOW - 50, NOW - 40),
    last_exit=EXIT,
    restart_at=NOW + 20,
)


def earlier(was: ProcessStatus, heard: Heartbeat | None, ago: float = CONFIRM_SECONDS) -> Sample:
    return Sample(NOW - ago, was, heartbeat=heard)


GONE = earlier(DOWN, heartbeat(20))
SLOW = heartbeat(61)

# process, heartbeat, history, an earlier sample, health, words, conclusive
CASES: dict[str, tuple[Any, Any, RestartHistory, Sample | None, Health, str, bool]] = {
    "healthy: it sends heartbeats": (process(), heartbeat(detail="12 sent"), EMPTY, None, V.HEALTHY,
        r"^stream-x-producer is RUNNING: streaming for 500 s \(12 sent\)$", True),
    "healthy: Kafka has to catch up": (process(), heartbeat(state=State.BACKPRESSURED), EMPTY, None,
        V.HEALTHY, "backpressured for 500 s", True),
    "healthy: it works": (process(), heartbeat(state=State.WORKING), EMPTY, None, V.HEALTHY,
        "working", True),
    "healthy: the last heartbeat is as old as it may be": (process(), heartbeat(60), EMPTY, None, V.HEALTHY,
        "streaming", True),
    "healthy: however often it was restarted": (process(), heartbeat(), times(9), None, V.HEALTHY, "", True),
    "healthy: its runtime does not know its id": (process(pid=None), heartbeat(pid=1), EMPTY, None,
        V.HEALTHY,
        "streaming", True),
    "healthy: the clocks differ a little": (process(), heartbeat(-4), EMPTY, None, V.HEALTHY, "", True),
    "healthy: its source has been away for less than the patience": (process(),
        heartbeat(state=State.CONNECTING, since=59), EMPTY, None, V.HEALTHY, "connecting for 59 s", True),
    "idle: it finds nothing to do": (process(), heartbeat(state=State.IDLE), EMPTY, None, V.IDLE,
        "idle for 500 s", True),
    "idle: its source answers and has nothing": (process(), heartbeat(state=State.WAITING), EMPTY,
        None, V.IDLE,
        "waiting for 500 s", True),
    "source unavailable: its source does not answer": (process(),
        heartbeat(state=State.CONNECTING, since=60, detail="503, again in 20 s"), EMPTY, None,
        V.SOURCE_UNAVAILABLE,
        r"its source has not answered for 60 s: connecting for 60 s \(503, again in 20 s\); it ", True),
    "starting: no heartbeat yet": (process(ago=89), None, EMPTY, None, V.STARTING,
        "no heartbeat 89 s after its start", False),
    "starting: only its predecessor's heartbeat": (process(ago=10), heartbeat(14), EMPTY, None, V.STARTING,
        " 10 s after", False),
    "starting: another one's heartbeat": (process(ago=10), heartbeat(1, pid=9), EMPTY, None, V.STARTING,
        "10 s", False),
    "starting: before its runtime is sure": (replace(process(ago=1), state=S.STARTING), None, EMPTY, None,
        V.STARTING, "is STARTING", False),
    "stalled: it never sent a heartbeat": (process(ago=90), None, EMPTY, None, V.STALLED,
        r" 90 s after its start \(startup timeout 90 s\); there never was a heartbeat", False),
    "stalled: only its predecessor's heartbeat": (process(ago=100), heartbeat(103), EMPTY, None, V.STALLED,
        r"last heartbeat by process 7, 103 s ago: streaming", False),
    "stalled: another one sends heartbeats in its place": (process(ago=100), heartbeat(1, pid=9), EMPTY, None,
        V.STALLED,
        "process 9, 1 s ago", False),
    "stalled: no heartbeat for long": (process(), SLOW, EMPTY, None, V.STALLED,
        r", last heartbeat 61 s ago \(stall timeout 60 s\): streaming for 500 s", False),
    "stalled: cut off, and hanging": (process(), heartbeat(61, State.CONNECTING), EMPTY, None, V.STALLED,
        "61 s ago", False),
    "down: it ended": (DOWN, heartbeat(), EMPTY, None, V.DOWN,
        r"is EXITED, exit status 1; last heartbeat by process 7, 3 s ago: streaming for 500 s", False),
    "down: it was never started": (ProcessStatus("p", S.STOPPED), None, EMPTY, None, V.DOWN,
        "p is STOPPED, exit status None; there never was a heartbeat", False),
    "down: nothing came since an earlier sample": (DOWN, heartbeat(20), EMPTY, GONE, V.DOWN, "", True),
    "down: a moment ago too": (DOWN, heartbeat(20), EMPTY, earlier(DOWN, heartbeat(20), 3), V.DOWN,
        "", False),
    "stalled: no heartbeat since an earlier sample": (process(), SLOW, EMPTY, earlier(process(), SLOW),
        V.STALLED, "61 s ago", True),
    "stalled: the heartbeats come again": (process(), SLOW, EMPTY, earlier(process(), heartbeat(90)),
        V.STALLED, "61 s ago", False),
    "starting: the runtime restarts it": (replace(LOOPING, restarts=()), None, EMPTY, None, V.STARTING,
        r"is BACKOFF, exit code 1 after 2 s; the runtime restarts it in 20 s", False),
    "flapping: the runtime keeps restarting it": (LOOPING, None, EMPTY, None, V.FLAPPING,
        r"^down: .* restarts it in 20 s; restarted 3 times within 1800 s", False),
    "flapping: it has just been restarted, and sends heartbeats": (
        replace(LOOPING, state=S.RUNNING, pid=7, since=NOW - 9), heartbeat(1), EMPTY, None, V.FLAPPING,
        "is RUNNING for 9 s; before that it ended with exit code 1 after 2 s", False),
    "login refused: no restart helps, and none is counted": (
        replace(LOOPING, exit_status=77, last_exit=replace(EXIT, code=77), refused=LOOPING.restarts), None,
        EMPTY, None,
        V.LOGIN_REFUSED, "exit code 77 after 2 s; the runtime restarts it in 20 s", True),
    "flapping: restarts by both": (replace(LOOPING, restarts=(NOW - 40,)), None, times(2), None, V.FLAPPING,
        "restarted 3 times", False),
    "healthy: it has lived for long since": (replace(LOOPING, state=S.RUNNING, pid=7, since=NOW - 91),
        heartbeat(1), EMPTY, None, V.HEALTHY, "streaming", True),
    "starting: a request counts the restarts from there": (LOOPING, None,
        RestartHistory(counted_from=NOW - 35), None, V.STARTING, "restarts it in 20 s", False),
    "starting: what the history knows counts once": (replace(LOOPING, restarts=(NOW - 60, NOW - 50)), None,
        RestartHistory(restarts=[NOW - 60, NOW - 50], runtime_restart_at=NOW - 50), None, V.STARTING, "",
        False),
    "down: the heartbeat since was its own": (DOWN, heartbeat(3), EMPTY, earlier(process(),
        heartbeat(20)), V.DOWN, "",
        False),
    "down: another start's heartbeat": (process(S.EXITED, ago=9), heartbeat(3), EMPTY, GONE, V.DOWN, "",
        False),
    "down: restarts of long ago do not count": (DOWN, None, times(3, 1801), None, V.DOWN, "", False),
    "fenced: another one sends heartbeats": (DOWN, heartbeat(2, pid=9, detail="a load"), EMPTY, GONE,
        V.FENCED, r"status 1; another instance, process 9, is active: streaming for 500 s \(a load\)", True),
    "fenced: another one's first heartbeat": (DOWN, heartbeat(2, pid=9), EMPTY, earlier(DOWN, None),
        V.FENCED, "process 9", True),
    "flapping: dead too often": (DOWN, None, times(3), None, V.FLAPPING,
        r"^down: .*; restarted 3 times within 1800 s without recovery$", False),
    "flapping: stalled too often": (process(), SLOW, times(3), None, V.FLAPPING, "^stalled: ", False),
    "suspended: stopped": (process(S.STOPPED), heartbeat(),
        RestartHistory(suspended="by ada since noon: new feed"), None,
        V.SUSPENDED,
        "^suspended by ada since noon: new feed; stream-x-producer is STOPPED$", True),
    "suspended: and running": (process(), None, RestartHistory(suspended="by ada"), None, V.SUSPENDED,
        "is RUNNING", True),
    "unknown: its runtime is at a loss": (process(S.UNKNOWN), heartbeat(), EMPTY, None, V.UNKNOWN,
        "does not know its state", False),
    "unknown: since when is unknown": (replace(process(), since=None), heartbeat(), EMPTY, None,
        V.UNKNOWN, "does not know its start time", False),
    "unknown: no sample of the process": (None, heartbeat(), EMPTY, None, V.UNKNOWN, "not observed", False),
    "unknown: a heartbeat from the future": (process(), heartbeat(-6), EMPTY, None, V.UNKNOWN,
        "its heartbeat is 6 s ahead of this clock. Fix: set the clocks", False),
}  # fmt: skip


def assess(
    seen: ProcessStatus | None,
    heard: Heartbeat | None,
    history: RestartHistory,
    before: Sample | None = None,
    errors: dict[str, str] | None = None,
) -> HealthReport:
    now = Sample(NOW, seen, heartbeat=heard, errors=errors or {})
    assert Sample.from_json(json.loads(json.dumps(now.to_json()))) == now
    return assess_component([before, now] if before else [now], POLICY, history)


@pytest.mark.parametrize("case", CASES)
def test_health(case: str) -> None:
    seen, heard, history, before, health, words, is_final = CASES[case]
    found = assess(seen, heard, history, before)
    assert found.health is health, found.message
    assert case.startswith(f"{health.value}: ")
    assert re.search(words, found.message), found.message
    assert found.is_final is is_final
    assert HealthReport.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_what_did_not_answer_is_said_and_nothing_else() -> None:
    errors = {"kafka": "away", "history": "S3 is away"}
    for seen in (process(), DOWN, None):
        found = assess(seen, None, RestartHistory(suspended="by ada"), errors=errors)
        assert found.health is V.UNKNOWN
        assert found.message.startswith("history: S3 is away; kafka: away")
        assert found.details["errors"] == errors
        assert not found.is_final
    assert assess(DOWN, None, EMPTY, errors=errors).identity == DOWN.identity


heartbeats = st.none() | st.builds(
    heartbeat, st.floats(-500, 500), st.sampled_from(State), st.floats(-500, 5000), st.integers(1, 9)
)
processes = st.none() | st.builds(
    ProcessStatus,
    st.just("p"),
    st.sampled_from(S),
    st.none() | st.integers(1, 9),
    st.none() | st.floats(NOW - 500, NOW + 500),
    st.none() | st.integers(0, 255),
    restarts=st.lists(st.floats(NOW - 500, NOW), max_size=5).map(tuple),
    last_exit=st.none() | st.just(EXIT),
    problem=st.none() | st.sampled_from(Problem),
)
known = st.builds(
    RestartHistory, st.lists(st.floats(NOW - 5000, NOW), max_size=5), st.none() | st.just("by ada")
)
befores = st.none() | st.builds(earlier, processes.filter(bool), heartbeats, st.floats(-5, 500))


@given(processes, heartbeats, known, befores, st.sampled_from([{}, {"kafka": "away"}]))
def test_anything_has_a_health_and_only_a_fresh_heartbeat_a_good_one(
    seen: ProcessStatus | None,
    heard: Heartbeat | None,
    history: RestartHistory,
    before: Sample | None,
    errors: dict[str, str],
) -> None:
    found = assess(seen, heard, history, before, errors)
    assert "\n" not in found.message
    if errors or seen is None:
        assert found.health is V.UNKNOWN
    if found.health in WELL:
        assert seen is not None
        assert seen.is_alive or (found.health, seen.state) == (V.STARTING, S.BACKOFF)
        assert found.health is V.STARTING or (
            heard is not None and -HEARTBEAT_INTERVAL <= NOW - heard.at <= POLICY.stall_timeout_seconds
        )
