"""Does a stream go on after it was started anew?"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from sluice.clients.errors import Unreachable
from sluice.model.config import ConfigError
from sluice.model.process import ProcessState as S
from sluice.model.process import ProcessStatus
from sluice.sensors.moved import MovedSensor
from sluice.triggers.moved import MovedTrigger, progress
from tests.support.raising import raising
from tests.support.supervision import SPEC, FakeRuntime, context, diagnosis, events, history, position, sample

BEFORE = {0: 10}
PROGRESS = {
    "another owner that published": (
        sample(published=position(4, 12)),
        True,
        "owner 4 has published 2 records, 3 wait",
    ),
    "another owner with nothing to do": (
        sample(published=position(4, 10), end=10),
        True,
        "owner 4 has published 0 records, 0 wait",
    ),
    "another owner that has not": (
        sample(published=position(4, 10)),
        False,
        "owner 4 has published 0 records, 5 wait",
    ),
    "the same owner, though it published": (
        sample(published=position(3, 15)),
        False,
        "nobody has taken over since owner 3",
    ),
    "no table any more": (
        replace(sample(), published=None),
        False,
        "nobody has taken over since owner 3",
    ),
    "nothing can be seen": (
        sample(published=position(4, 12), trouble={"kafka": "away", "lake": "gone"}),
        False,
        "kafka: away; lake: gone",
    ),
    "a new partition was read": (
        sample(published=replace(position(4), starts={0: 0, 1: 0}, ends={0: 10, 1: 2})),
        True,
        "owner 4 has published 2 records, 5 wait",
    ),
}


@pytest.mark.parametrize("case", PROGRESS.values(), ids=PROGRESS.keys())
def test_progress(case: Any) -> None:
    seen, moved, sentence = case
    assert progress(seen, 3, BEFORE) == (moved, sentence)


def process(state: S) -> ProcessStatus:
    return ProcessStatus(SPEC.program, state, 1, 2000.0)


class Eyes:
    """Looks in turn; a clock that moves by sleeping."""

    def __init__(self, *looks: Any) -> None:
        self.looks, self.now = list(looks), 5000.0

    async def sleep(self, seconds: float) -> None:
        self.now += seconds

    def observer(self, spec: Any) -> Any:
        return SimpleNamespace(look=self.look)

    def look(self, now: float) -> Any:
        found = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(found, Exception):
            raise found
        return found

    def fire(self) -> Any:
        trigger = MovedTrigger(
            stream="nyc_taxi", role="airflow", token=3, published={"0": 10}, deadline=5120.0
        )
        trigger.__dict__["hook"] = self
        trigger.clock, trigger.sleep = lambda: self.now, self.sleep

        async def first() -> Any:
            return await anext(trigger.run())

        return asyncio.run(first()).payload


def test_it_fires_when_the_stream_goes_on() -> None:
    waiting = sample(process=process(S.STARTING))
    eyes = Eyes(waiting, waiting, sample(published=position(4, 12)))
    assert eyes.fire() == {
        "outcome": "moved",
        "reason": "owner 4 has published 2 records, 3 wait",
        "at": 5004.0,
    }


@pytest.mark.parametrize("end", [S.EXITED, S.FATAL, S.STOPPED])
def test_it_fires_when_the_process_has_ended(end: S) -> None:
    event = Eyes(sample(process=process(S.STARTING)), sample(process=process(end))).fire()
    assert (event["outcome"], event["at"]) == ("died", 5002.0)
    assert event["reason"] == f"stream-nyc_taxi is {end.name}; nobody has taken over since owner 3"


def test_one_that_ended_after_it_moved_has_moved() -> None:
    moved = sample(process=process(S.EXITED), published=position(4, 12))
    assert Eyes(moved).fire()["outcome"] == "moved"


def test_it_waits_while_nothing_can_be_seen_but_not_for_ever() -> None:
    event = Eyes(Unreachable("no answer within 90 s")).fire()
    assert event == {"outcome": "timed out", "reason": "observer: no answer within 90 s", "at": 5120.0}


def test_a_wrong_declaration_is_not_waited_for() -> None:
    eyes = Eyes(ConfigError("stream.toml: wrong"))
    assert (eyes.fire()["reason"], eyes.now) == ("stream.toml: wrong", 5000.0)


def test_it_goes_on_elsewhere() -> None:
    made = MovedTrigger(stream="s", role="r", token=1, published={"0": 1}, deadline=5.0)
    path, values = made.serialize()
    assert path == f"{MovedTrigger.__module__}.{MovedTrigger.__qualname__}"
    assert MovedTrigger(**values).serialize() == (path, values)
    assert set(values) == {"stream", "role", "token", "published", "deadline", "poll_interval"}


# The sensor.


def verify(runtime: FakeRuntime | None = None) -> MovedSensor:
    made = MovedSensor(task_id="verify", stream="nyc_taxi")
    hook = SimpleNamespace(runtime=runtime or FakeRuntime())
    made.__dict__ |= {"platform_hook": hook, "history": history()}
    return made


def deferred(given: Any) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as caught:
        verify().execute(given)
    return caught.value


def test_it_waits_for_more_than_what_was_judged() -> None:
    waiting = deferred(context(diagnosis()))
    assert (waiting.trigger.token, waiting.trigger.published) == (3, {"0": 10})
    assert waiting.timeout.total_seconds() == 240


def test_what_the_judged_look_did_not_see_an_earlier_one_did() -> None:
    unseen = replace(sample(), published=None)
    looks = [sample(published=position(6, 8)), sample(published=position(7, 9)), unseen]
    assert deferred(context(diagnosis(), samples=looks)).trigger.token == 7
    assert deferred(context(diagnosis(), samples=looks[2:])).trigger.token == 0


def test_a_recovery_is_recorded_with_its_seconds() -> None:
    made = verify()
    given = context(xcoms={"restart": {"done": True, "at": 5000.0}, "answer": None})
    event = {"outcome": "moved", "reason": "owner 4 goes on", "at": 5023.46}
    assert made.resume(given, event) == {"seconds": 23.5, "how": "owner 4 goes on"}
    (kept,) = events(made.history, "recovered")
    assert (kept["seconds"], kept["run"], kept["at"]) == (
        23.5, "run-1", datetime.fromtimestamp(5023.46, UTC).isoformat(),
    )  # fmt: skip


def test_the_newest_act_counts_and_one_that_did_nothing_does_not() -> None:
    acts = {"restart": {"done": True, "at": 5000.0}, "answer": {"done": False, "at": 5010.0}}
    event = {"outcome": "moved", "reason": "", "at": 5020.0}
    assert verify().resume(context(xcoms=acts), event)["seconds"] == 20
    both = {"restart": {"done": True, "at": 5000.0}, "answer": {"done": True, "at": 5010.0}}
    assert verify().resume(context(xcoms=both), event)["seconds"] == 10
    with raising(AirflowFailException, "restart, answer"):
        verify().resume(context(xcoms={"answer": acts["answer"]}), event)


def test_what_does_not_go_on_is_red_with_the_logs_last_reason() -> None:
    made = verify()
    with raising(AirflowFailException, "died", "it is FATAL", "LookupError: topic 't' has no partition"):
        made.resume(context(), {"outcome": "died", "reason": "it is FATAL", "at": 1.0})
    assert events(made.history, "recovered") == []


def test_without_its_log_it_is_red_all_the_same() -> None:
    runtime = FakeRuntime()
    runtime.trouble = Unreachable("supervisord is away")
    made = verify(runtime)
    with raising(AirflowFailException, "late", "supervisord is away"):
        made.resume(context(), {"outcome": "timed out", "reason": "late", "at": 1.0})
