"""How a stream is: one row per case, and what holds for any samples."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.config.sections.supervision import Supervision
from sluice.core.offsets.rejection import Counters
from sluice.core.processes.restarts import RestartHistory
from sluice.core.processes.status import Problem, ProcessExit, ProcessState, ProcessStatus
from sluice.core.tables.position import Position
from sluice.supervision.rules.consumer import assess_consumer
from sluice.supervision.rules.sample import Sample
from sluice.supervision.rules.status import (
    ATTEMPT_DUE,
    LEFT_ALONE,
    NO_ACTION,
    RESTARTABLE,
    WELL,
    Health,
    HealthReport,
)
from tests.support.alerting import ALERTING

NOW = 100_000.0
SINCE = NOW - 5_000
# The declared defaults, so that the moments below can be read: check every 120 s (a gap is more than 180 s),
# stalled after 60 s, started after 90 s, behind over 300 s, at risk within 6 h, 3 restarts in 1800 s.
POLICY = Supervision()
EMPTY = RestartHistory()
R, X = ProcessState.RUNNING, ProcessState.EXITED


def process(state: ProcessState = R, since: float | None = SINCE, exit_status: int = 0) -> ProcessStatus:
    return ProcessStatus("stream-x", state, 42 if state is R else None, since, exit_status)


def main(ends: int | dict[int, int] = 100, **more: Any) -> Position:
    """What main says: one partition from 0 on, or as given; writer 7, which has just published."""
    ends = ends if isinstance(ends, dict) else {0: ends}
    given: dict[str, Any] = {
        "epoch": 7,
        "at": NOW - 5,
        "acquired_at": SINCE + 10,
        "starts": dict.fromkeys(ends, 0),
    }
    return Position(**(given | {"ends": ends, "topic_id": "T"} | more))


def sample(ago: float, topic: int | dict[int, int], published: Position | None, **more: Any) -> Sample:
    """A sample ``ago`` seconds before now at a topic that keeps all up to these ends."""
    ends = topic if isinstance(topic, dict) else {0: topic}
    given: dict[str, Any] = {
        "process": process(),
        "topic_id": "T",
        "begins": dict.fromkeys(ends, 0),
        "expiring": None,
    }
    given |= {"at": NOW - ago, "ends": ends, "published": published, "errors": {}}
    return Sample(**(given | more))


def old(ends: int | dict[int, int] = 100, **more: Any) -> Position:
    """What main says of a stream that published last an hour ago."""
    return main(ends, at=NOW - 3600, **more)


def rejecting(malformed: int, **more: Any) -> Position:
    """What main says after a batch of 100 records, of which so many were malformed."""
    counters = (Counters(NOW - 5, 0, 0), Counters(NOW - 5, 100 - malformed, malformed))
    given = {"counters": counters, "newest_malformed": "here: bad"}
    return main(100, rejected=malformed, malformed=malformed, **(given | more))


def dead(ago: float, published: Position, topic: int = 900, status: int = 1, **more: Any) -> Sample:
    return sample(ago, topic, published, process=process(X, exit_status=status, **more))


def stopped_by_schema(status: int) -> Sample:
    found = dead(0, old(), status=status)
    assert found.process is not None
    said = "SLU-516 SchemaNotFollowed: raw.x: schema id 7 cannot be followed"
    return replace(found, process=replace(found.process, description=said))


def refused_login(**more: Any) -> Sample:
    """Its runtime has tried it five times, and does again in 20 s."""
    found = dead(0, old())
    assert found.process is not None
    given: dict[str, Any] = {
        "state": ProcessState.BACKOFF,
        "exit_status": 77,
        "description": "SLU-210 LoginRefused: Kafka at b:1 refuses the login",
        "restarts": tuple(NOW - ago for ago in (90, 80, 70, 60, 50)),
        "refused": tuple(NOW - ago for ago in (90, 80, 70, 60, 50)),
        "last_exit": ProcessExit(NOW - 10, 77, 5.0),
        "restart_at": NOW + 20,
    }
    return replace(found, process=replace(found.process, **(given | more)))


def growing(lags: Sequence[tuple[float, int, int]]) -> list[Sample]:
    """(ago, topic's end, published end): a stream that moves."""
    return [sample(ago, topic, main(end, at=NOW - ago - 3)) for ago, topic, end in lags]


def times(count: int, ago: float = 100) -> RestartHistory:
    return RestartHistory(restarts=[NOW - ago - i for i in range(count)])


V = Health
HELD = {0: "producer 7, since offset 100"}
# reason -> samples, history, health, words of the message, conclusive
CASES: dict[str, tuple[list[Sample], RestartHistory, Health, str, bool]] = {
    # No restart helps.
    "incompatible schema: the consumer ended before one of its records": (
        [stopped_by_schema(78)],
        EMPTY,
        V.INCOMPATIBLE_SCHEMA,
        "schema id 7.* 800 records wait",
        True,
    ),
    "incompatible schema: its records are deleted soon": (
        [replace(stopped_by_schema(78), expiring={0: 150}, expires_in=5400.0)],
        EMPTY,
        V.INCOMPATIBLE_SCHEMA,
        "schema id 7.* 800 records wait; retention deletes 50 unread records, the first of them",
        True,
    ),
    "down: another end over its configuration, which names the code of a schema": (
        [stopped_by_schema(1)],
        EMPTY,
        V.DOWN,
        "800 records wait",
        False,
    ),
    "login refused: the runtime tries it again and again, and that is no restart": (
        [refused_login()],
        EMPTY,
        V.LOGIN_REFUSED,
        "SLU-210 .* exit code 77 .* the runtime restarts it in 20 s; 800 records wait",
        True,
    ),
    "login refused: after restarts that did not help": (
        [refused_login()],
        times(3),
        V.LOGIN_REFUSED,
        "",
        True,
    ),
    "starting: its login was corrected, after many attempts": (
        [refused_login(state=R, pid=42, since=NOW - 9, restart_at=None)],
        EMPTY,
        V.STARTING,
        "no active writer 9 s after its start",
        False,
    ),
    "starting: it ended once for another reason, after many attempts": (
        [refused_login(exit_status=1, description="", last_exit=ProcessExit(NOW - 10, 1, 5.0))],
        EMPTY,
        V.STARTING,
        "exit code 1 after 5 s; the runtime restarts it in 20 s",
        False,
    ),
    "data at risk: its login is refused, and records are deleted soon": (
        [replace(refused_login(), expiring={0: 150}, expires_in=5400.0)],
        EMPTY,
        V.DATA_AT_RISK,
        "^retention deletes 50 unread records.*; login refused: .*SLU-210 .* restarts it in 20 s; 800 rec",
        True,
    ),
    "data lost: its login is refused, too": (
        [replace(refused_login(), begins={0: 150})],
        EMPTY,
        V.DATA_LOST,
        "50 offsets were deleted .*Fix: .*; login refused: .*SLU-210 ",
        True,
    ),
    "login refused: its runtime does not try it again": (
        [refused_login(state=X, restart_at=None)],
        EMPTY,
        V.LOGIN_REFUSED,
        "is EXITED .*SLU-210",
        True,
    ),
    # A transaction of others that does not end.
    "waiting for a transaction: nothing behind it is read": (
        [
            sample(ago, {0: 900, 1: 100}, old({0: 100, 1: 100}), stable={0: 100, 1: 100}, transactions=HELD)
            for ago in (130, 65, 0)
        ],
        EMPTY,
        V.WAITING_FOR_TRANSACTION,
        "waits for 130 s for a transaction of producer 7, since.*partition 0: 100.* 800 records wait.*Fix: ",
        True,
    ),
    "waiting for a transaction: Kafka does not say whose": (
        [sample(ago, 900, old(), stable={0: 100}) for ago in (130, 65, 0)],
        EMPTY,
        V.WAITING_FOR_TRANSACTION,
        "a producer that this user may not see",
        True,
    ),
    "stalled: committed records of another partition are not read either": (
        [
            sample(ago, {0: 900, 1: 900}, old({0: 100, 1: 100}), stable={0: 100, 1: 101})
            for ago in (130, 65, 0)
        ],
        EMPTY,
        V.STALLED,
        "stream without progress",
        True,
    ),
    # What could not be observed.
    "unknown: no sample at all": ([], EMPTY, V.UNKNOWN, "nothing was observed", False),
    "unknown: Kafka does not answer": (
        [sample(0, {}, main(), ends=None, begins=None, errors={"kafka": "no answer from k in 15 s"})],
        EMPTY,
        V.UNKNOWN,
        "kafka: no answer from k in 15 s; stream-x is RUNNING",
        False,
    ),
    "unknown: the catalog does not answer, though no record waits": (
        [sample(0, 100, None, errors={"lake": "down"})],
        EMPTY,
        V.UNKNOWN,
        "lake: down",
        False,
    ),
    "unknown: the runtime does not answer": (
        [sample(0, 100, main(), process=None, errors={"process": "refused"})],
        EMPTY,
        V.UNKNOWN,
        "process: refused",
        False,
    ),
    "unknown: the process was not observed, and nothing says why": (
        [sample(0, 100, main(), process=None)],
        EMPTY,
        V.UNKNOWN,
        "the process was not observed",
        False,
    ),
    "unknown: the topic was not observed, and nothing says why": (
        [sample(0, 100, main(), begins=None)],
        EMPTY,
        V.UNKNOWN,
        "the topic was not observed",
        False,
    ),
    "unknown: the runtime does not know the state": (
        [sample(0, 100, main(), process=process(ProcessState.UNKNOWN))],
        EMPTY,
        V.UNKNOWN,
        "stream-x is UNKNOWN: its runtime does not know its state",
        False,
    ),
    "unknown: dead, but what waits is unknown, so no restart": (
        [sample(0, {}, None, process=process(X), ends=None, errors={"kafka": "away", "lake": "away"})],
        EMPTY,
        V.UNKNOWN,
        "kafka: away; lake: away; stream-x is EXITED",
        False,
    ),
    "unknown: even where it is held": (
        [sample(0, 100, main(), errors={"lake": "down"})],
        RestartHistory(suspended="by me"),
        V.UNKNOWN,
        "lake: down",
        False,
    ),
    "unknown: the first sample finds a backlog and no movement": (
        [sample(0, 900, old())],
        EMPTY,
        V.UNKNOWN,
        r"800 records wait, and nothing was published in 0 s .*too short",
        False,
    ),
    "unknown: 50 s of observation are not 60": (
        [sample(50, 900, old()), sample(0, 950, old())],
        EMPTY,
        V.UNKNOWN,
        r"in 50 s .*stall timeout 60 s",
        False,
    ),
    "unknown: it moved before a gap of an hour, which says nothing of now": (
        [sample(3700, 500, main(50, at=NOW - 3701)), sample(0, 900, old())],
        EMPTY,
        V.UNKNOWN,
        "too short",
        False,
    ),
    "unknown: the last publication is in the future, so the driver's clock says nothing": (
        [sample(0, 900, main(at=NOW + 500))],
        EMPTY,
        V.UNKNOWN,
        "too short",
        False,
    ),
    "unknown: it published 61 s ago, which is more than its patience": (
        [sample(0, 900, main(at=NOW - 61))],
        EMPTY,
        V.UNKNOWN,
        "too short",
        False,
    ),
    # Nothing to do.
    "idle: nothing waits, nothing moved": (
        [sample(60, 100, old()), sample(0, 100, old())],
        EMPTY,
        V.IDLE,
        "nothing arrives; stream-x is RUNNING",
        True,
    ),
    "idle: one sample is enough": ([sample(0, 100, old())], EMPTY, V.IDLE, "nothing arrives", True),
    "idle: an empty topic of a stream that has a writer": (
        [sample(0, 0, old(0))],
        EMPTY,
        V.IDLE,
        "nothing arrives",
        True,
    ),
    "idle: what was published before a gap is not now": (
        [sample(3700, 90, main(90)), sample(0, 100, old())],
        EMPTY,
        V.IDLE,
        "nothing arrives",
        True,
    ),
    "idle: a compacted head moves no begin and no end": (
        [sample(60, 100, old(), begins={0: 40}), sample(0, 100, old(), begins={0: 40})],
        EMPTY,
        V.IDLE,
        "nothing arrives",
        True,
    ),
    "idle: a trimmed head, up to what is published": (
        [sample(60, 100, old(), begins={0: 0}), sample(0, 100, old(), begins={0: 100})],
        EMPTY,
        V.IDLE,
        "nothing arrives",
        True,
    ),
    "healthy: nothing waits because all was published": (
        growing([(60, 100, 40), (0, 100, 100)]),
        EMPTY,
        V.HEALTHY,
        r"everything is published; 0 records/s arrive, 1 records/s are published by writer epoch 7",
        True,
    ),
    # Moving.
    "healthy: a few records wait, as ever": (
        growing([(20, 1000, 990), (10, 2000, 1990), (0, 3000, 2990)]),
        EMPTY,
        V.HEALTHY,
        "10 records wait; 100 records/s arrive, 100 records/s are published",
        True,
    ),
    "healthy: one sample, and it published 5 s ago": (
        [sample(0, 900, main())],
        EMPTY,
        V.HEALTHY,
        "800 records wait; writer epoch 7; stream-x is RUNNING",
        True,
    ),
    "healthy: it published while it was observed": (
        [sample(0, 900, main(at=NOW + 20))],
        EMPTY,
        V.HEALTHY,
        "800 records wait",
        True,
    ),
    "healthy: it published 40 s ago, which more samples could refute": (
        [sample(0, 900, main(at=NOW - 40))],
        EMPTY,
        V.HEALTHY,
        "800 records wait",
        False,
    ),
    "catching up: the backlog came since the last sample, so it may be working on it": (
        [sample(120, 100, old()), sample(0, 900, old())],
        EMPTY,
        V.CATCHING_UP,
        "800 records wait",
        False,
    ),
    "catching up: another writer has just begun behind the same records": (
        [
            sample(100, 900, old(epoch=6)),
            sample(10, 900, old(acquired_at=NOW - 9)),
            sample(0, 900, old(acquired_at=NOW - 9)),
        ],
        EMPTY,
        V.CATCHING_UP,
        "800 records wait",
        False,
    ),
    "catching up: the clock was put back an hour, and the samples show movement": (
        [
            sample(-3600, 900, main(50, at=NOW + 3590)),
            sample(20, 900, main(80, at=NOW + 3595)),
            sample(0, 900, main(899, at=NOW + 3599)),
        ],
        EMPTY,
        V.CATCHING_UP,
        "1 records wait",
        True,
    ),
    "healthy: a new partition's records are read from its begin on": (
        [sample(10, 100, main()), sample(0, {0: 100, 1: 20}, main({0: 100, 1: 19}))],
        EMPTY,
        V.HEALTHY,
        "1 records wait",
        True,
    ),
    "healthy: the writer has not seen the new partition yet": (
        [sample(20, 100, main()), sample(0, {0: 120, 1: 520}, main(120), begins={0: 0, 1: 500})],
        EMPTY,
        V.HEALTHY,
        "20 records wait; 2 records/s arrive, 1 records/s",
        True,
    ),
    "catching up: the time to go follows from both rates": (
        growing([(20, 90_000, 10_000), (10, 90_100, 30_000), (0, 90_200, 50_000)]),
        EMPTY,
        V.CATCHING_UP,
        "40200 records wait, about 20 s to go; 10 records/s arrive, 2000 records/s",
        True,
    ),
    "stalled: a load came at once, and its first batch takes longer than any before": (
        [
            sample(120, 100, old()),
            sample(100, 90_000, old()),
            sample(50, 90_000, old()),
            sample(0, 90_000, old()),
        ],
        EMPTY,
        V.STALLED,
        "without progress for 100 s",
        True,
    ),
    "catching up: the backlog grows, but not for 300 s yet": (
        growing([(290, 90_000, 0), (140, 95_000, 10), (0, 99_999, 20)]),
        EMPTY,
        V.CATCHING_UP,
        "99979 records wait, no estimate; 34 records/s arrive, 0 records/s are published",
        True,
    ),
    "catching up: it grew in the first half and shrank since": (
        growing([(320, 1000, 1000), (200, 400_000, 50_000), (100, 400_100, 150_000), (0, 400_200, 250_000)]),
        EMPTY,
        V.CATCHING_UP,
        "150200 records wait",
        True,
    ),
    "healthy: the driver's clock is ahead, and the samples show no movement": (
        [sample(20, 100, main(at=NOW + 500)), sample(0, 900, main(at=NOW + 500))],
        EMPTY,
        V.HEALTHY,
        "800 records wait",
        False,
    ),
    "catching up: the driver's clock is ahead, and the samples show movement long ago": (
        [
            sample(100, 900, main(50, at=NOW + 450)),
            sample(50, 900, main(at=NOW + 500)),
            sample(0, 900, main(at=NOW + 500)),
        ],
        EMPTY,
        V.CATCHING_UP,
        "800 records wait, about 1600 s to go",
        False,
    ),
    "catching up: it grew in the second half, and is less than it was": (
        growing([(320, 300_000, 100_000), (160, 300_100, 200_000), (0, 400_200, 220_000)]),
        EMPTY,
        V.CATCHING_UP,
        "180200 records wait",
        True,
    ),
    "catching up: another table, which holds less": (
        [sample(20, 90_000, main(80_000)), sample(0, 90_000, main(30))],
        EMPTY,
        V.CATCHING_UP,
        "0 records/s arrive, 0 records/s are published",
        True,
    ),
    # Malformed records: see test_rejecting.
    "rejecting: nothing waits, and all of the last batches is in quarantine": (
        [sample(0, 100, rejecting(90))],
        EMPTY,
        V.REJECTING,
        r"90 of the last 100 records \(90.0 %\) .*percent is 5; newest: here: bad. Fix: .*no record waits",
        True,
    ),
    "rejecting: a reason that says what to do": (
        [sample(0, 100, rejecting(90, newest_malformed="here: bad. Fix: this"))],
        EMPTY,
        V.REJECTING,
        "newest: here: bad. Fix: this; or correct what sends them",
        True,
    ),
    "rejecting: more waits, and it makes progress": (
        [sample(10, 300, main(100)), sample(0, 400, rejecting(100))],
        EMPTY,
        V.REJECTING,
        "300 records wait",
        True,
    ),
    "stalled: a restart comes before what it rejected": (
        [sample(130, 900, rejecting(90, at=NOW - 3600)), sample(0, 900, rejecting(90, at=NOW - 3600))],
        EMPTY,
        V.STALLED,
        "without progress",
        True,
    ),
    "down: a restart comes before what it rejected": (
        [dead(10, rejecting(90), 100), dead(0, rejecting(90), 100)],
        EMPTY,
        V.DOWN,
        "no record waits",
        True,
    ),
    "idle: a person asked for a start since": (
        [sample(0, 100, old(100, counters=rejecting(90).counters))],
        RestartHistory(requested_at=NOW - 4),
        V.IDLE,
        "nothing arrives",
        True,
    ),
    # Falling behind.
    "lagging: it grew for 320 s, in both halves": (
        growing([(320, 1000, 900), (160, 100_000, 10_000), (0, 200_000, 20_000)]),
        EMPTY,
        V.LAGGING,
        r"180000 records wait, 179900 more than 320 s ago: it never catches up .*622 records/s arrive, 60 r",
        True,
    ),
    "healthy: it grew, but what waits is less than what arrives in the patience": (
        growing([(320, 1000, 900), (160, 100_000, 99_000), (0, 200_000, 198_000)]),
        EMPTY,
        V.HEALTHY,
        "2000 records wait",
        True,
    ),
    "catching up: two samples are no trend": (
        growing([(170, 1000, 900), (0, 200_000, 20_000)]),
        EMPTY,
        V.CATCHING_UP,
        "no estimate",
        True,
    ),
    "catching up: gaps between the samples are no 300 s": (
        growing([(3000, 1000, 900), (110, 100_000, 10_000), (0, 200_000, 20_000)]),
        EMPTY,
        V.CATCHING_UP,
        "no estimate",
        True,
    ),
    # Standing still.
    "stalled: 60 s of a backlog and no movement": (
        [sample(60, 900, old()), sample(30, 950, old()), sample(0, 1000, old())],
        EMPTY,
        V.STALLED,
        r"RUNNING, stream without progress for 60 s .*from partition 0: 100 on; 900 records wait",
        True,
    ),
    "stalled: the earlier sample was the last run's": (
        [sample(120, 900, old()), sample(0, 900, old())],
        EMPTY,
        V.STALLED,
        "without progress for 120 s",
        True,
    ),
    "stalled: of an hour without an observation 180 s count": (
        [sample(3600, 900, old()), sample(0, 900, old())],
        EMPTY,
        V.STALLED,
        "without progress for 180 s",
        True,
    ),
    "stalled: a sample that saw nothing in between changes nothing": (
        [
            sample(70, 900, old()),
            sample(40, {}, None, process=None, ends=None, errors={"kafka": "away"}),
            sample(0, 900, old()),
        ],
        EMPTY,
        V.STALLED,
        "without progress for 70 s",
        True,
    ),
    "stalled: a sample without the catalog in between changes nothing": (
        [
            sample(70, 900, old()),
            sample(40, 900, None, errors={"lake": "away"}),
            sample(20, {}, old(), ends=None),
            sample(10, 900, old(), begins=None),
            sample(0, 900, old()),
        ],
        EMPTY,
        V.STALLED,
        "without progress for 70 s",
        True,
    ),
    "stalled: the clock was put forward two hours while it stood still for 10 s only": (
        [sample(7210, 900, main(at=NOW - 7220)), sample(0, 900, main(at=NOW - 7220))],
        EMPTY,
        V.STALLED,
        "without progress for 180 s",
        True,
    ),
    "stalled: one partition stands still while the other moves": (
        [
            sample(70, {0: 900, 1: 500}, main({0: 100, 1: 10})),
            sample(30, {0: 900, 1: 500}, main({0: 200, 1: 10})),
            sample(0, {0: 900, 1: 500}, main({0: 300, 1: 10})),
        ],
        EMPTY,
        V.STALLED,
        r"1 partitions without progress for 70 s .*from partition 1: 10 on; 1090 records wait",
        True,
    ),
    "stalled: suspended while records are about to be deleted, since a restart saves them": (
        [sample(70, 900, old()), sample(0, 900, old(), expiring={0: 150}, expires_in=600.0)],
        EMPTY,
        V.STALLED,
        "800 records wait; retention deletes 50 unread records, the first of them within 10 min",
        True,
    ),
    "stalled: a new partition that its writer does not read": (
        [
            sample(90, {0: 100, 1: 5}, old(100)),
            sample(0, {0: 100, 1: 9}, old(100)),
        ],
        EMPTY,
        V.STALLED,
        "from partition 1: 0 on; 9 records wait",
        True,
    ),
    "catching up: batches of 50 s are given 150 s": (
        [sample(120, 900, old(longest_batch=50.0)), sample(0, 900, main(at=NOW - 140, longest_batch=50.0))],
        EMPTY,
        V.CATCHING_UP,
        "800 records wait",
        False,
    ),
    "stalled: after three of its longest batches": (
        [sample(150, 900, old(longest_batch=50.0)), sample(0, 900, old(longest_batch=50.0))],
        EMPTY,
        V.STALLED,
        "without progress for 150 s .stall timeout 150 s",
        True,
    ),
    "unknown: a restart that brought no batch doubles the patience": (
        [sample(100, 900, old(batch_at=NOW - 3600)), sample(0, 900, old(batch_at=NOW - 3600))],
        times(1),
        V.UNKNOWN,
        "stall timeout 120 s",
        False,
    ),
    "stalled: a restart after which nothing waited doubles nothing": (
        [
            sample(90, 100, old(batch_at=NOW - 3600)),
            sample(70, 900, old(batch_at=NOW - 3600)),
            sample(0, 900, old(batch_at=NOW - 3600)),
        ],
        times(1),
        V.STALLED,
        "stall timeout 60 s",
        True,
    ),
    "stalled: a restart before the newest batch doubles nothing": (
        [sample(70, 900, old(batch_at=NOW - 80)), sample(0, 900, old(batch_at=NOW - 80))],
        times(1),
        V.STALLED,
        "stall timeout 60 s",
        True,
    ),
    "catching up: another start of the process begins a new series": (
        [
            sample(100, 900, old(acquired_at=NOW)),
            sample(0, 900, old(acquired_at=NOW), process=process(since=NOW - 4000)),
        ],
        EMPTY,
        V.CATCHING_UP,
        "800 records wait",
        False,
    ),
    "flapping: it stands still after three restarts": (
        [sample(500, 900, old()), *(sample(ago, 900, old()) for ago in (400, 300, 200, 100, 0))],
        times(3),
        V.FLAPPING,
        r"stalled: stream-x is RUNNING.*restarted 3 times within 1800 s without recovery",
        True,
    ),
    # Starting.
    "starting: it has 90 s": (
        [sample(0, 900, old(), process=process(since=NOW - 89))],
        EMPTY,
        V.STARTING,
        "no active writer 89 s after its start; 800 records wait",
        False,
    ),
    "starting: the first start, before there is a table": (
        [sample(0, 0, None, process=process(ProcessState.STARTING, since=NOW - 3))],
        EMPTY,
        V.STARTING,
        "stream-x is STARTING: no active writer 3 s",
        False,
    ),
    "starting: the clock was put back behind the start": (
        [sample(0, 900, old(acquired_at=NOW - 50), process=process(since=NOW + 3600))],
        EMPTY,
        V.STARTING,
        "no active writer 0 s after",
        False,
    ),
    "starting: no epoch-start is kept, and the process is young": (
        [sample(0, 900, old(acquired_at=None), process=process(since=NOW - 10))],
        EMPTY,
        V.STARTING,
        "no active writer 10 s",
        False,
    ),
    "idle: no epoch-start is kept, and the process is old": (
        [sample(0, 100, old(acquired_at=None))],
        EMPTY,
        V.IDLE,
        "nothing arrives",
        True,
    ),
    "idle: the runtime tells no start, and there is a writer": (
        [sample(0, 100, old(), process=process(since=None))],
        EMPTY,
        V.IDLE,
        "nothing arrives",
        True,
    ),
    "idle: the two clocks differ by 2 s": (
        [sample(0, 100, old(acquired_at=NOW - 52), process=process(since=NOW - 50))],
        EMPTY,
        V.IDLE,
        "nothing arrives",
        True,
    ),
    "stalled: no writer in 90 s, to be observed again": (
        [
            sample(2, 900, old(), process=process(since=NOW - 90)),
            sample(0, 900, old(), process=process(since=NOW - 90)),
        ],
        EMPTY,
        V.STALLED,
        r"no active writer 90 s after its start \(startup timeout 90 s\)",
        False,
    ),
    "stalled: no writer in 90 s, observed twice": (
        [
            sample(4, 100, old(), process=process(since=NOW - 95)),
            sample(0, 100, old(), process=process(since=NOW - 95)),
        ],
        EMPTY,
        V.STALLED,
        "no active writer 95 s",
        True,
    ),
    "stalled: the clock was put back, and the samples alone are 90 s": (
        [
            sample(95, 900, old(acquired_at=NOW - 50), process=process(since=NOW + 3600)),
            sample(0, 900, old(acquired_at=NOW - 50), process=process(since=NOW + 3600)),
        ],
        EMPTY,
        V.STALLED,
        "no active writer 95 s",
        True,
    ),
    "flapping: it never acquires the lease, after three restarts": (
        [
            sample(5, 900, old(), process=process(since=NOW - 200)),
            sample(0, 900, old(), process=process(since=NOW - 200)),
        ],
        times(3, 200),
        V.FLAPPING,
        "stalled: .*restarted 3 times",
        True,
    ),
    # Not alive.
    "down: one sample, to be observed again": (
        [dead(0, old())],
        EMPTY,
        V.DOWN,
        "stream-x is EXITED, exit status 1; 800 records wait",
        False,
    ),
    "down: seen twice, 4 s apart": (
        [dead(4, old()), dead(0, old())],
        EMPTY,
        V.DOWN,
        "exit status 1",
        True,
    ),
    "down: seen twice, 3 s apart": (
        [dead(3, old()), dead(0, old())],
        EMPTY,
        V.DOWN,
        "exit status 1",
        False,
    ),
    "down: seen twice, the first time without Kafka": (
        [
            sample(9, {}, None, process=process(X), ends=None, begins=None, errors={"kafka": "away"}),
            dead(0, old()),
        ],
        EMPTY,
        V.DOWN,
        "exit status 1",
        True,
    ),
    "starting: the runtime restarts it": (
        [dead(100, old()), sample(0, 900, old(), process=process(ProcessState.BACKOFF, exit_status=1))],
        EMPTY,
        V.STARTING,
        "exit status 1",
        False,
    ),
    "down: status 76 before there is a table": (
        [sample(0, 900, None, process=process(X, exit_status=76))],
        EMPTY,
        V.DOWN,
        "exit status 76; 900 records wait",
        False,
    ),
    "down: the earlier sample saw another start of it die": (
        [dead(100, old(), since=SINCE - 500), dead(0, old())],
        EMPTY,
        V.DOWN,
        "exit status 1",
        False,
    ),
    "down: it lived at the earlier sample": (
        [sample(60, 900, old()), dead(0, old())],
        EMPTY,
        V.DOWN,
        "EXITED",
        False,
    ),
    "down: stopped, though nothing waits": (
        [sample(0, 100, old(), process=process(ProcessState.STOPPED))],
        EMPTY,
        V.DOWN,
        "stream-x is STOPPED, exit status 0; no record waits",
        False,
    ),
    "down: never started, and there is no table": (
        [
            sample(9, 5, None, process=process(ProcessState.STOPPED, None)),
            sample(0, 5, None, process=process(ProcessState.STOPPED, None)),
        ],
        EMPTY,
        V.DOWN,
        "stream-x is STOPPED, exit status 0; 5 records wait",
        True,
    ),
    "down: given up by its runtime": (
        [sample(0, 900, old(), process=process(ProcessState.FATAL))],
        EMPTY,
        V.DOWN,
        "stream-x is FATAL",
        False,
    ),
    "down: a restart is under way": (
        [sample(0, 900, old(), process=process(ProcessState.STOPPING))],
        EMPTY,
        V.DOWN,
        "stream-x is STOPPING",
        False,
    ),
    "down: two restarts are not three": (
        [dead(5, old()), dead(0, old())],
        times(2),
        V.DOWN,
        "exit status 1",
        True,
    ),
    "down: the third restart was longer ago than the window": (
        [dead(5, old()), dead(0, old())],
        RestartHistory(restarts=[NOW - 1801, NOW - 100, NOW - 50]),
        V.DOWN,
        "exit status 1",
        True,
    ),
    "down: restarts of a clock that was hours ahead do not count": (
        [dead(5, old()), dead(0, old())],
        RestartHistory(restarts=[NOW + 9000, NOW + 9001, NOW + 9002]),
        V.DOWN,
        "exit status 1",
        True,
    ),
    "down: while records are about to be deleted": (
        [dead(5, old()), sample(0, 900, old(), process=process(X), expiring={0: 5000}, expires_in=60.0)],
        EMPTY,
        V.DOWN,
        "retention deletes 800 unread records, the first of them within 60 s",
        True,
    ),
    "flapping: dead after three restarts": (
        [dead(5, old()), dead(0, old())],
        times(3),
        V.FLAPPING,
        "down: stream-x is EXITED, exit status 1; 800 records wait; restarted 3 times",
        True,
    ),
    # Fenced.
    "fenced: status 76, and nothing waits": (
        [dead(0, old(epoch=8), topic=100, status=76)],
        EMPTY,
        V.FENCED,
        "exit status 76: writer epoch 8 is active; no record waits",
        True,
    ),
    "fenced: status 76, and its successor publishes": (
        [dead(0, main(epoch=8, at=NOW - 50), status=76)],
        EMPTY,
        V.FENCED,
        "writer epoch 8 is active; 800 records wait",
        True,
    ),
    "fenced: status 76, and its successor is too slow for retention": (
        [replace(dead(0, main(epoch=8, at=NOW - 50), status=76), expiring={0: 150}, expires_in=5400.0)],
        EMPTY,
        V.FENCED,
        "writer epoch 8 is active; 800 records wait; retention deletes 50 unread records",
        True,
    ),
    "down: status 76, and its successor publishes nothing of what waits": (
        [dead(0, main(epoch=8, at=NOW - 70), status=76)],
        EMPTY,
        V.DOWN,
        "exit status 76; 800 records wait",
        False,
    ),
    "down: another status is no successor": (
        [dead(0, old(), topic=100, status=75)],
        EMPTY,
        V.DOWN,
        "exit status 75; no record waits",
        False,
    ),
    "idle: an earlier start's status says nothing of a living process": (
        [sample(0, 100, old(), process=process(exit_status=76))],
        EMPTY,
        V.IDLE,
        "nothing arrives",
        True,
    ),
    # Held.
    "suspended: stopped on purpose": (
        [dead(0, old())],
        RestartHistory(suspended="by operator since noon: move"),
        V.SUSPENDED,
        "suspended by operator since noon: move; stream-x is EXITED; 800 records wait",
        True,
    ),
    "suspended: three restarts do not matter": (
        [dead(0, old())],
        replace(times(3), suspended="x"),
        V.SUSPENDED,
        "suspended x",
        True,
    ),
    "suspended: it was suspended because of the recreated topic": (
        [dead(0, old(900), topic=5)],
        RestartHistory(suspended="by me"),
        V.SUSPENDED,
        "suspended by me; the topic was recreated: partition 0 ends at 5",
        True,
    ),
    "data at risk: held, and what could still be saved is about to go": (
        [sample(0, 900, old(), process=process(X), expiring={0: 150}, expires_in=4000.0)],
        RestartHistory(suspended="by me"),
        V.DATA_AT_RISK,
        "suspended by me; retention deletes 50 unread records, the first of them within 67 min",
        True,
    ),
    # Another topic.
    "topic recreated: the id is not the table's": (
        [sample(0, 900, main(), topic_id="U")],
        EMPTY,
        V.TOPIC_RECREATED,
        "its id is U and was T. Fix: give the stream a new table, or restore the topic",
        True,
    ),
    "topic recreated: the table knows no id, and an earlier sample another": (
        [sample(60, 900, main(topic_id=None)), sample(0, 900, main(topic_id=None), topic_id="U")],
        EMPTY,
        V.TOPIC_RECREATED,
        "its id is U and was T",
        True,
    ),
    "healthy: the table is of the new topic, the earlier sample of the old one": (
        [sample(60, 900, main(topic_id="S"), topic_id="S"), sample(0, 900, main())],
        EMPTY,
        V.HEALTHY,
        "800 records wait; writer epoch 7",
        True,
    ),
    "starting: the topic was recreated before anything was read": (
        [sample(60, 900, None), sample(0, 5, None, topic_id="U", process=process(since=NOW - 5))],
        EMPTY,
        V.STARTING,
        "5 records wait",
        False,
    ),
    "idle: a broker without ids": (
        [sample(9, 100, old(), topic_id=None), sample(0, 100, old(), topic_id=None)],
        EMPTY,
        V.IDLE,
        "nothing arrives",
        True,
    ),
    "topic recreated: the topic ends before the table, to be observed again": (
        [sample(0, 99, main())],
        EMPTY,
        V.TOPIC_RECREATED,
        "partition 0 ends at 99, and the table has offsets up to 100",
        False,
    ),
    "topic recreated: the topic ends before the table, seen twice": (
        [sample(9, 99, main()), sample(0, 99, main())],
        EMPTY,
        V.TOPIC_RECREATED,
        "partition 0 ends at 99",
        True,
    ),
    "topic recreated: partitions are gone": (
        [sample(0, {0: 100}, main({0: 100, 1: 50}))],
        EMPTY,
        V.TOPIC_RECREATED,
        "it has 1 partitions, and the table has partition 1",
        False,
    ),
    "topic recreated: before dead, since a restart could not go on": (
        [dead(0, old(), topic=9)],
        EMPTY,
        V.TOPIC_RECREATED,
        "ends at 9",
        False,
    ),
    # Deleted, or about to be.
    "data lost: the topic begins behind what is published": (
        [sample(0, 900, main(), begins={0: 500})],
        EMPTY,
        V.DATA_LOST,
        r"400 offsets were deleted before they were read: 0=\[100,500\)\. Fix: give the stream",
        True,
    ),
    "data lost: before dead, since a restart refuses to start over a hole": (
        [sample(0, 900, old(), begins={0: 101}, process=process(X))],
        EMPTY,
        V.DATA_LOST,
        r"1 offsets were deleted .*\[100,101\)",
        True,
    ),
    "data at risk: unread records are older than retention allows": (
        [sample(0, {0: 900, 1: 50}, main({0: 100, 1: 50}), expiring={0: 300, 1: 50}, expires_in=5400.0)],
        EMPTY,
        V.DATA_AT_RISK,
        "retention deletes 200 unread records, the first of them within 90 min; writer epoch 7",
        True,
    ),
    "data at risk: it is not known yet whether it moves": (
        [sample(0, 900, old(), expiring={0: 101}, expires_in=9000.0)],
        EMPTY,
        V.DATA_AT_RISK,
        "deletes 1 unread records, the first of them within 2.5 h",
        False,
    ),
    "healthy: what is due is published": (
        [sample(0, 900, main(), expiring={0: 100})],
        EMPTY,
        V.HEALTHY,
        "800 records wait",
        True,
    ),
    "data at risk: the begin advances, for the topic's size": (
        [
            sample(700, 90_000, main(50_000), begins={0: 0}),
            sample(600, 91_000, main(50_000), begins={0: 10_000}),
            sample(300, 92_000, main(52_000), begins={0: 16_000}),
            sample(0, 93_000, main(54_000), begins={0: 22_000}),
        ],
        EMPTY,
        V.DATA_AT_RISK,
        "at its pace unread records of partition 0 are deleted within 27 min",
        True,
    ),
    "catching up: one advance of the begin is no pace": (
        [
            sample(90, 90_000, main(50_000), begins={0: 0}),
            sample(0, 90_010, main(54_000), begins={0: 50_000}),
        ],
        EMPTY,
        V.CATCHING_UP,
        "36010 records wait",
        True,
    ),
    "catching up: two advances at once are one deletion": (
        [
            sample(90, 90_000, main(50_000), begins={0: 0}),
            sample(10, 90_000, main(50_000), begins={0: 10_000}),
            sample(0, 90_010, main(54_000), begins={0: 50_000}),
        ],
        EMPTY,
        V.CATCHING_UP,
        "36010 records wait",
        True,
    ),
    "catching up: the begin advances too slowly to reach what is unread": (
        [
            sample(120, 90_000, main(50_000), begins={0: 0}),
            sample(100, 90_000, main(50_000), begins={0: 10}),
            sample(0, 90_000, main(54_000), begins={0: 110}),
        ],
        EMPTY,
        V.CATCHING_UP,
        "36000 records wait",
        True,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_health(case: str) -> None:
    samples, history, health, words, is_final = CASES[case]
    found = assess_consumer(samples, POLICY, history)
    assert found.health is health, found.message
    assert case.startswith(f"{health.value}: ")
    assert re.search(words, found.message), found.message
    assert "\n" not in found.message
    assert found.is_final is is_final


def test_every_health_has_a_case_and_one_consequence() -> None:
    # Only components that read from another system than Kafka can lose their source (test_component); what a
    # cluster says is in test_problems.
    elsewhere = {V.SOURCE_UNAVAILABLE.value, *(problem.value for problem in Problem)}
    assert {case.split(":")[0] for case in CASES} == {health.value for health in Health} - elsewhere
    parts = [NO_ACTION, RESTARTABLE, LEFT_ALONE, ALERTING]
    assert sum(map(len, parts)) == len(Health)
    assert frozenset().union(*parts) == frozenset(Health)
    assert {Health.SUSPENDED} == NO_ACTION - WELL


def test_a_report_says_how_much_how_fast_and_what_it_rests_on() -> None:
    samples = growing([(20, 1000, 900), (10, 2000, 1900), (0, 3000, 2800)])
    found = assess_consumer(samples, POLICY, times(2))
    assert (found.lag, found.rate, found.arrivals, found.epoch) == (200, 95.0, 100.0, 7)
    assert found.identity == str(int(SINCE))
    assert found.details == {
        "at": NOW,
        "samples": 3,
        "observed_seconds": 20,
        "still_seconds": 0,
        "stall_timeout_seconds": 240,
        "process": process().to_json(),
        "topic_id": "T",
        "published_at": NOW - 3,
        "acquired_at": SINCE + 10,
        "longest_batch_seconds": None,
        "published_records": 2800,
        "malformed": 0,
        "newest_malformed": None,
        "unread": {"0": 200},
        "published_to": {"0": 2800},
        "risk": None,
        "restarts": [NOW - 101, NOW - 100],
        "errors": {},
        "suspended": None,
    }


def test_a_sample_that_is_given_twice_counts_once() -> None:
    once = sample(0, 100, old())
    assert assess_consumer([once, once], POLICY, EMPTY) == assess_consumer([once], POLICY, EMPTY)


def test_only_the_pace_of_the_last_300_s_counts() -> None:
    lags = [(400, 0, 0), (310, 900_000, 90_000), (150, 900_160, 90_160), (0, 900_310, 90_310)]
    found = assess_consumer(growing(lags), POLICY, EMPTY)
    assert (found.rate, found.arrivals) == (1.0, 1.0)


def test_what_is_published_counts_from_where_the_stream_began() -> None:
    found = assess_consumer([sample(0, 100, main(starts={0: 40}))], POLICY, EMPTY)
    assert found.details["published_records"] == 60


def test_two_samples_are_no_trend_however_short_the_policy() -> None:
    policy = replace(POLICY, lag_window_seconds=10)
    lags = [(100, 1000, 900), (0, 200_000, 20_000)]
    assert assess_consumer(growing(lags), policy, EMPTY).health is Health.CATCHING_UP


def test_what_is_not_known_is_none() -> None:
    found = assess_consumer([sample(0, 100, None, process=process(X))], POLICY, EMPTY)
    assert (found.lag, found.rate, found.arrivals, found.epoch) == (100, None, None, None)
    found = assess_consumer([sample(0, {}, main(), ends=None, errors={"kafka": "away"})], POLICY, EMPTY)
    assert (found.lag, found.epoch, found.identity) == (None, 7, str(int(SINCE)))
    assert found.details == {"at": NOW, "errors": {"kafka": "away"}, "samples": 1}
    assert assess_consumer([], POLICY, EMPTY).identity is None


def test_patience_doubles_eightfold_at_most() -> None:
    policy = replace(POLICY, max_restarts=99)
    found = assess_consumer([sample(0, 900, old())], policy, times(9))
    assert found.details["stall_timeout_seconds"] == 480


def test_a_policy_of_its_own_is_followed() -> None:
    policy = replace(POLICY, interval_seconds=10, stall_timeout_seconds=12, max_restarts=1)
    samples = [sample(50, 900, old()), sample(0, 900, old())]
    assert assess_consumer(samples, policy, EMPTY).details["still_seconds"] == 15
    assert assess_consumer(samples, policy, EMPTY).health is Health.STALLED
    assert assess_consumer(samples, policy, RestartHistory([NOW - 3700])).health is Health.STALLED
    assert assess_consumer([dead(0, old())], policy, times(1)).health is Health.FLAPPING


@pytest.mark.parametrize("case", CASES)
def test_samples_and_reports_survive_json(case: str) -> None:
    samples, history, *_ = CASES[case]
    assert [Sample.from_json(json.loads(json.dumps(s.to_json()))) for s in samples] == samples
    found = assess_consumer(samples, POLICY, history)
    assert HealthReport.from_json(json.loads(json.dumps(found.to_json()))) == found


# Few values, so that they meet.
moments = st.integers(-400, 400).map(lambda n: NOW + n)
small = st.integers(0, 5)
maps = st.dictionaries(st.integers(0, 2), small, max_size=3)
topic_ids = st.none() | st.sampled_from(["T", "U"])
processes = st.builds(
    ProcessStatus,
    st.just("stream-x"),
    st.sampled_from(ProcessState),
    st.none() | st.integers(1, 3),
    st.none() | moments,
    st.none() | st.sampled_from([0, 1, 76]),
    problem=st.none() | st.sampled_from(Problem),
)
positions = st.builds(
    Position,
    epoch=st.integers(1, 3),
    at=moments,
    acquired_at=st.none() | moments,
    starts=maps,
    ends=maps,
    topic_id=topic_ids,
    longest_batch=st.none() | st.floats(0, 1000),
    batch_at=st.none() | moments,
)
troubles = st.dictionaries(st.sampled_from(["process", "kafka", "lake"]), st.just("away"), max_size=3)
complete = st.builds(
    Sample,
    at=moments,
    process=processes,
    topic_id=topic_ids,
    begins=maps,
    ends=maps,
    expiring=st.none() | maps,
    published=st.none() | positions,
    errors=st.just({}),
    expires_in=st.none() | st.floats(0, 1e6),
)
holes = st.fixed_dictionaries(
    {},
    optional={
        "process": st.none(),
        "begins": st.none(),
        "ends": st.none(),
        "published": st.none(),
        "errors": troubles,
    },
)
# Half of them without a hole, so that the rules behind the blindness are reached.
any_sample = complete | st.builds(lambda sample, hole: replace(sample, **hole), complete, holes)
facts_of_any_kind = st.builds(RestartHistory, st.lists(moments, max_size=5), st.none() | st.just("by me"))


@given(st.lists(any_sample, max_size=8), facts_of_any_kind)
def test_any_samples_are_judged_and_trouble_is_never_well(
    samples: list[Sample], history: RestartHistory
) -> None:
    found = assess_consumer(samples, POLICY, history)
    json.dumps(found.to_json())
    assert found.lag is None or found.lag >= 0
    last = samples[-1] if samples else None
    blind = last is None or last.errors or None in (last.process, last.begins, last.ends)
    assert (found.health is Health.UNKNOWN) or not blind
    if found.health in WELL:
        assert last is not None
        assert last.process is not None
        # One that the runtime restarts in a moment is starting.
        assert last.process.is_alive or last.process.state is ProcessState.BACKOFF
        assert history.suspended is None
        assert found.lag == sum(last.unread().values())


@given(st.lists(any_sample, max_size=8), any_sample, facts_of_any_kind, st.data())
def test_other_earlier_samples_never_make_a_dead_process_well(
    earlier: list[Sample], last: Sample, history: RestartHistory, data: st.DataObject
) -> None:
    dead_now = replace(last, process=process(X))
    shuffled = data.draw(st.permutations(earlier))
    kept = shuffled[: data.draw(st.integers(0, len(shuffled)))]
    for before in (earlier, shuffled, kept, []):
        assert assess_consumer([*before, dead_now], POLICY, history).health not in WELL


@given(st.lists(any_sample, max_size=8), any_sample, facts_of_any_kind)
def test_what_clocks_say_of_the_future_changes_nothing(
    earlier: list[Sample], last: Sample, history: RestartHistory
) -> None:
    future = [replace(sample, at=last.at + 1 + index) for index, sample in enumerate(earlier)]
    assert (
        assess_consumer([*future, last], POLICY, history).health
        is assess_consumer([last], POLICY, history).health
    )


def test_a_refused_login_is_tried_again_also_while_records_are_at_risk() -> None:
    ended = replace(refused_login(state=X, restart_at=None), expiring={0: 150}, expires_in=5400.0)
    assert assess_consumer([ended], POLICY, EMPTY).details[ATTEMPT_DUE]
