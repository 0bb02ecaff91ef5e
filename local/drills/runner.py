"""Runs drills on a stack, one after the other, and records what came of each."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from local.base import REPO, UsageError
from local.drills.drill import Drill, DrillContext, Failed, events, is_calm, moment
from local.drills.restore import heal
from local.drills.result import DrillRecord
from local.drills.stream import StreamUnderTest, moved_on
from local.drills.traffic import TrafficGenerator, lost_and_doubled, published
from local.progress import ProgressDisplay
from local.stack import lake
from local.stack.health import UNREACHABLE_ERRORS
from sluice.clients.errors import Missing
from sluice.model.spec.ledger import RUNTIME

SAMPLE = REPO / "samples" / "nyc_taxi" / "taxi-data.csv.gz"
CALM_SECONDS = 240.0
LOAD_SECONDS = 420.0
ROWS = 200


def run(
    drill: Drill, site: StreamUnderTest, board: ProgressDisplay, trigger_immediately: bool, load: bool = True
) -> DrillRecord:
    """One drill from a healthy stream to its verification; always gives a record, and repairs the stack.

    `trigger_immediately`: supervision is triggered instead of waited for. `load`: end with a load (tests end
    once).
    """
    drilling = DrillRun(drill, site, board, trigger_immediately, load)
    with board.step(drill.name) as step:
        drilling.line = step.line
        drilling.go()
    record = drilling.record
    board.say(f"{drill.name}: {'passed' if record.passed else f'NOT passed: {record.failures}'}")
    return record


class DrillRun:
    """A drill that runs; `record` is what is known of it so far."""

    def __init__(
        self,
        drill: Drill,
        site: StreamUnderTest,
        board: ProgressDisplay,
        trigger_immediately: bool,
        load: bool,
    ) -> None:
        self.drill, self.site, self.board, self.load = drill, site, board, load
        self.interval = site.spec.supervision.interval_seconds
        self.line: Callable[[str], None] = lambda text: None
        self.context = DrillContext(site, TrafficGenerator(site), self._say, trigger_immediately)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self.record = DrillRecord(
            drill.name, now, self.interval, trigger_immediately, load="" if load else "success"
        )

    def _say(self, text: str) -> None:
        self.board.say(f"  {self.drill.name}: {text}")
        self.line(text)

    def go(self) -> None:
        """Fill the record, also with what ends the drill early; only an interrupt is raised, after the
        repair."""
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
        cannot = self.drill.needs(self.context)
        if cannot:
            raise Failed(cannot)
        self._calm()
        self._say(self.drill.what)
        self.drill.break_(self.context)
        if not self.context.broken:
            raise Failed("the drill did not say when it broke what it breaks")
        self.record.injected_at = self.context.broken
        self._notice_and_mend()
        self._recover()
        self.drill.afterwards(self.context)
        self._become_calm()
        self._prove()

    # Before.

    def _calm(self) -> None:
        """A stream that runs and is supervised, with records that come and are published, and no worry."""
        self.line("waiting for a calm stream")
        site = self.site
        for dag in (site.loading, site.supervision):
            site.airflow.wait_for_dag(dag)
            site.airflow.unpause(dag)
        self._first_load()
        self._with_a_clean_slate()
        self.context.traffic.start()
        began = time.time()
        self.context.await_(
            "a calm stream, before anything is broken",
            lambda: self._is_calm(began),
            self._limit(CALM_SECONDS),
        )

    def _first_load(self) -> None:
        """On a stack that was never used: the topic, the tables and the stream's process come with a load."""
        try:
            self.site.table()
        except Missing:
            self.line("the first load")
            state = self._load()
            if state != "success":
                raise Failed(f"the first load, before anything was broken, was {state}") from None

    def _with_a_clean_slate(self) -> None:
        """Restarts by earlier drills would count against this one, and make it ask a person."""
        history, now = self.site.history, datetime.now(UTC)
        facts = history.facts(now, self.site.spec.supervision)
        if facts.suspended is not None:
            raise Failed(f"the stream is held {facts.suspended}: release it first, with action start")
        if facts.restarts:
            why = f"drill {self.drill.name}: restarts by earlier drills do not count"
            history.record("resume", {"who": "drill", "reason": why}, now)

    def _is_calm(self, began: float) -> bool:
        if self.site.process()["statename"] != "RUNNING":
            return False
        newest = self.site.history.latest("health")
        if newest is not None and not is_calm(newest):
            return False
        return any(commit.kind == "batch" for commit in self.site.commits(since=began))

    # From the break to the recovery.

    def _limit(self, besides: float) -> float:
        """A deadline in seconds: two intervals, since one may just have begun, and what it takes besides."""
        return 2 * self.interval + besides

    def _notice_and_mend(self) -> None:
        limit = self._limit(self.drill.detect_seconds)
        self.line("waiting until it is noticed")
        at, who = self.context.await_("noticed by anybody", self._noticed, limit)
        # Where nobody noticed, or somebody interrupts, healing mends it, and does not wait.
        repaired_at = self._repair()
        self.record.detected_at, self.record.detected_by, self.record.repaired_at = at, who, repaired_at
        self._say(f"noticed after {at - self.context.broken:.1f} s by {who}")

    def _noticed(self) -> tuple[float, str] | None:
        found = []
        for look in self.drill.detected_by:
            # One way to notice may be broken, too: the others are asked all the same.
            with suppress(*UNREACHABLE_ERRORS):
                seen = look(self.context)
                if seen is not None:
                    found.append(seen)
        return min(found, default=None)

    def _repair(self) -> float | None:
        """What the drill itself mends; gives when, None where it mends nothing."""
        if self.drill.repair.__name__ == "nothing":
            return None
        while time.time() < self.context.broken + self.drill.repair_after:
            self.line(f"mending in {self.context.broken + self.drill.repair_after - time.time():.0f} s")
            with suppress(*UNREACHABLE_ERRORS):
                self.context.trigger_check()
            time.sleep(1)
        self.drill.repair(self.context)
        return time.time()

    def _recover(self) -> None:
        self.line("waiting until it has recovered")
        after = max(self.record.detected_at or 0.0, self.record.repaired_at or 0.0)
        at = self.context.await_(
            "published again",
            lambda: moved_on(self.site.commits(self.context.broken), after, self.context.total),
            self._limit(self.drill.recover_seconds),
        )
        self.record.recovered_at = at
        self._say(f"published again {at - self.context.broken:.1f} s after the break")

    def _become_calm(self) -> None:
        """The newest verdict since the break is calm; where there is none, nobody had a worry."""
        self.line("waiting for a calm verdict")

        def calm() -> float | None:
            verdicts = events(self.context, "health")
            if not verdicts:
                return time.time()
            newest = verdicts[-1]
            return moment(newest["at"]) if is_calm(newest) else None

        with suppress(Failed):
            # Not calm is a complaint of its own, with the verdicts in it.
            self.record.healthy_at = self.context.await_("calm", calm, self._limit(CALM_SECONDS))

    # The proof.

    def _prove(self) -> None:
        traffic = self.context.traffic
        self.line("the proof: stopping the trickle")
        record = self.record
        record.unsent = traffic.stop()
        taken, span = traffic.taken, traffic.span
        record.sent = len(taken)
        if traffic.refusals:
            self._say(f"Kafka did not take {len(traffic.refusals)} records: {traffic.refusals[0]}")
        self.line("the proof: everything published")
        wanted = {p: after for p, (first, after) in self.site.bounds().items() if after > first}
        self.context.await_(
            f"everything up to {wanted} published", lambda: self.site.ends() == wanted, self._limit(180.0)
        )
        self.line("the proof: every offset and every record")
        record.offsets = lake.exactness(self.site.stack, self.site.spec)
        record.records = lost_and_doubled(taken, published(self.site, span))
        self._say(f"{record.offsets.message()}; {len(taken)} records of its own")
        if self.load:
            self.line("a load of a small object")
            record.load = self._load()

    def _load(self) -> str:
        """A load of a small object that nobody has seen; gives its end."""
        header, *rows = gzip.decompress(SAMPLE.read_bytes()).decode().splitlines()[: ROWS + 1]
        key = f"drills/{self.drill.name}-{time.time_ns()}.csv"
        stack = self.site.stack
        stack.admin_s3().put_object(
            Bucket=stack.platform("airflow").source.bucket,
            Key=key,
            Body=("\n".join([header, *rows]) + "\n").encode(),
        )
        run_id = self.site.airflow.trigger(self.site.loading, {"objects": [key]})
        return self.site.airflow.wait(self.site.loading, run_id, LOAD_SECONDS)

    # The end, whatever the beginning was.

    def _end(self) -> None:
        self.line("cleaning up")
        self.context.traffic.stop(seconds=1.0)
        proxy = self.context.kept.pop("proxy", None)
        try:
            heal(self.site, self._say)
        finally:
            if proxy is not None:
                proxy.__exit__()
        acts = events(self.context, "restart")
        # The history learns of the runtime's restarts at the next check; its status knows them all.
        restarts = [moment(event["at"]) for event in acts if event.get("who") != RUNTIME]
        if self.context.broken:
            restarts += self.site.status().restarts_since(self.context.broken)
        self.record.decided_at = min(restarts, default=None)
        self.record.restarts = len(restarts)
        self.record.verdicts = [str(event["health"]) for event in events(self.context, "health")]


def run_all(
    drills: Sequence[Drill],
    site: StreamUnderTest,
    board: ProgressDisplay,
    trigger_immediately: bool,
    keep: Callable[[DrillRecord], None],
) -> list[DrillRecord]:
    """All of them, also after one has not passed; `keep` gets each record as soon as there is one."""
    records = []
    for drill in drills:
        record = run(drill, site, board, trigger_immediately)
        keep(record)
        records.append(record)
    return records
