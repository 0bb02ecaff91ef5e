"""Runs one drill: a healthy stream, the injection, its detection, repair, recovery, and the verification."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime

from local.base import UsageError
from local.progress import ProgressDisplay
from local.stack.health import UNREACHABLE_ERRORS
from sluice.clients.lake.commits import Commit
from sluice.core.errors import Missing
from sluice.ledger.keys import RUNTIME
from tests.drills import loads
from tests.drills.drill import Drill, DrillContext, Failed, events, is_healthy, moment, no_step
from tests.drills.restore import restore
from tests.drills.result import DrillRecord
from tests.support import topic_offsets
from tests.support.stream import StreamUnderTest
from tests.support.traffic import TrafficGenerator, lost_and_duplicated, published

HEALTHY_SECONDS = 240.0


def run(
    drill: Drill,
    stream: StreamUnderTest,
    board: ProgressDisplay,
    trigger_immediately: bool,
    load: bool = True,
) -> DrillRecord:
    """Run one drill from a healthy stream to its verification; always gives a record, and restores the stack.

    `trigger_immediately`: supervision is triggered instead of waited for. `load`: end with a load (tests end
    once).
    """
    drill_run = DrillRun(drill, stream, board, trigger_immediately, load)
    with board.step(drill.name) as step:
        drill_run.line = step.line
        drill_run.go()
    record = drill_run.record
    board.say(f"{drill.name}: {'passed' if record.passed else f'NOT passed: {record.failures}'}")
    return record


class DrillRun:
    """A drill that runs, and its record so far."""

    def __init__(
        self,
        drill: Drill,
        stream: StreamUnderTest,
        board: ProgressDisplay,
        trigger_immediately: bool,
        load: bool,
    ) -> None:
        self.drill, self.stream, self.board, self.load = drill, stream, board, load
        self.interval = stream.spec.supervision.interval_seconds
        self.line: Callable[[str], None] = lambda text: None
        self.runtime_restarts: list[float] = []
        self.context = DrillContext(stream, TrafficGenerator(stream), self._say, trigger_immediately)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self.record = DrillRecord(
            drill.name, now, self.interval, trigger_immediately, load="" if load else "success"
        )

    def _say(self, text: str) -> None:
        self.board.say(f"  {self.drill.name}: {text}")
        self.line(text)

    def go(self) -> None:
        """Fill in the record, also with what ends the drill early; only an interrupt is raised, after the
        restore."""
        try:
            try:
                self._run()
            finally:
                self._end()
        except Failed as failure:
            self.record.failure = str(failure)
        except (*UNREACHABLE_ERRORS, TimeoutError, UsageError) as error:
            self.record.failure = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"

    def _run(self) -> None:
        reason = self.drill.unavailable(self.context)
        if reason:
            raise Failed(reason)
        self._wait_until_healthy()
        self._say(self.drill.what)
        self.drill.inject(self.context)
        if not self.context.injected_at:
            raise Failed("the drill did not record its injection")
        self.record.injected_at = self.context.injected_at
        self._detect_and_repair()
        self._recover()
        # A start on request begins the runtime's count again.
        self._note_runtime_restarts()
        self.drill.afterwards(self.context)
        self._wait_for_healthy_status()
        self._verify()

    def _wait_until_healthy(self) -> None:
        self.line("waiting for a healthy stream")
        stream = self.stream
        for dag in (stream.loading, stream.supervision):
            stream.airflow.wait_for_dag(dag)
            stream.airflow.unpause(dag)
        self._first_load()
        self._reset_restart_count()
        self.context.traffic.start()
        began = time.time()
        limit = self._limit(HEALTHY_SECONDS)
        self.context.wait_for("a healthy stream before the injection", lambda: self._is_healthy(began), limit)

    def _first_load(self) -> None:
        try:
            self.stream.table()
        except Missing:
            # On a new stack a load creates the topic, the tables and the stream's process.
            self.line("the first load")
            state = self._load()
            if state != "success":
                raise Failed(f"the first load, before the injection, was {state}") from None

    def _reset_restart_count(self) -> None:
        # Restarts by earlier drills would count against this one and leave the stream to a person.
        history, now = self.stream.history, datetime.now(UTC)
        recorded = history.restart_history(now, self.stream.spec.supervision)
        if recorded.suspended is not None:
            raise Failed(f"the stream is suspended {recorded.suspended}. Fix: resume it with action start")
        if recorded.restarts or recorded.left_since:
            reason = f"drill {self.drill.name}: restarts by earlier drills do not count"
            history.record("resume", {"who": "drill", "reason": reason}, now)

    def _is_healthy(self, began: float) -> bool:
        if self.stream.process()["statename"] != "RUNNING":
            return False
        newest = self.stream.history.latest("health")
        if newest is not None and not is_healthy(newest):
            return False
        return any(commit.kind == "batch" for commit in self.stream.commits(since=began))

    def _limit(self, besides: float) -> float:
        # Two intervals, since one may just have started.
        return 2 * self.interval + besides

    def _detect_and_repair(self) -> None:
        self.line("waiting for the detection")
        at, who = self.context.wait_for("detection", self._detected, self._limit(self.drill.detect_seconds))
        # Without a detection, or after an interrupt, `restore` repairs, and does not wait.
        repaired_at = self._repair()
        self.record.detected_at, self.record.detected_by, self.record.repaired_at = at, who, repaired_at
        self._say(f"detected after {at - self.context.injected_at:.1f} s by {who}")

    def _detected(self) -> tuple[float, str] | None:
        found = []
        for detector in self.drill.detected_by:
            # The fault may disable one detector; the others are asked all the same.
            with suppress(*UNREACHABLE_ERRORS):
                detection = detector(self.context)
                if detection is not None:
                    found.append(detection)
        return min(found, default=None)

    def _repair(self) -> float | None:
        if self.drill.repair is no_step:
            return None
        while (left := self.context.injected_at + self.drill.repair_after - time.time()) > 0:
            self.line(f"repair in {left:.0f} s")
            with suppress(*UNREACHABLE_ERRORS):
                self.context.trigger_check()
            time.sleep(1)
        self.drill.repair(self.context)
        return time.time()

    def _recover(self) -> None:
        self.line("waiting for the recovery")
        after = max(self.record.detected_at or 0.0, self.record.repaired_at or 0.0)
        at = self.context.wait_for(
            "a batch after the repair",
            lambda: moved_on(self.stream.commits(self.context.injected_at), after, self.context.total),
            self._limit(self.drill.recover_seconds),
        )
        self.record.recovered_at = at
        self._say(f"recovered {at - self.context.injected_at:.1f} s after the injection")

    def _wait_for_healthy_status(self) -> None:
        self.line("waiting for a healthy status")

        def healthy() -> float | None:
            # The newest health status since the injection needs no action, or none was recorded.
            statuses = events(self.context, "health")
            if not statuses:
                return time.time()
            return moment(statuses[-1]["at"]) if is_healthy(statuses[-1]) else None

        with suppress(Failed):
            # A check of its own, with the statuses in it.
            self.record.healthy_at = self.context.wait_for("healthy", healthy, self._limit(HEALTHY_SECONDS))

    def _verify(self) -> None:
        traffic = self.context.traffic
        self.line("verification: stopping the background load")
        record = self.record
        record.unsent = traffic.stop()
        delivered, span = traffic.delivered, traffic.span
        record.sent = len(delivered)
        if traffic.failures:
            self._say(f"Kafka did not take {len(traffic.failures)} records: {traffic.failures[0]}")
        self.line("verification: waiting until all is published")
        expected = {p: after for p, (first, after) in self.stream.bounds().items() if after > first}
        limit = self._limit(180.0)
        self.context.wait_for(
            f"all published up to {expected}", lambda: self.stream.ends() == expected, limit
        )
        self.line("verification: every offset and every record")
        record.offsets = topic_offsets.compare_with_topic(self.stream.stack, self.stream.spec)
        record.records = lost_and_duplicated(delivered, published(self.stream, span))
        self._say(f"{record.offsets.message()}; {len(delivered)} records of the background load")
        if self.load:
            self.line("a load of a small object")
            record.load = self._load()

    def _note_runtime_restarts(self) -> None:
        found = self.stream.status().restarts_since(self.context.injected_at)
        self.runtime_restarts = sorted({*self.runtime_restarts, *found})

    def _load(self) -> str:
        key, _ = loads.put(self.stream, f"{self.drill.name}-{time.time_ns()}.csv")
        run_id = loads.start(self.stream, key)
        return self.stream.airflow.wait(self.stream.loading, run_id, loads.LOAD_SECONDS)

    def _end(self) -> None:
        self.line("cleaning up")
        self.context.traffic.stop(seconds=1.0)
        with self.context.cleanup:
            restore(self.stream, self._say)
        # The history gets the runtime's restarts at the next check; its status has all of them.
        restarts = [
            moment(event["at"]) for event in events(self.context, "restart") if event.get("who") != RUNTIME
        ]
        if self.context.injected_at:
            self._note_runtime_restarts()
        restarts += self.runtime_restarts
        self.record.decided_at = min(restarts, default=None)
        self.record.restarts = len(restarts)
        self.record.health_statuses = [str(event["health"]) for event in events(self.context, "health")]


def moved_on(commits: Iterable[Commit], after: float, total: int) -> float | None:
    """The time of the first batch after `after` that brought main past `total`, or None."""
    for commit in commits:
        if commit.kind == "batch" and commit.at > after and sum(commit.ends.values()) > total:
            return commit.at
    return None
