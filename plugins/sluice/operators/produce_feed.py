"""Step 3 of a load from a feed: a bounded run of the stream's producer."""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from sluice.hooks import feed as feeds
from sluice.hooks import plan as plans
from sluice.hooks.child import Child
from sluice.hooks.failures import is_hopeless, last_reason
from sluice.model import feeding
from sluice.model.stream import STREAMS
from sluice.operators.base import StreamOperator

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.clients.keys import Document
    from sluice.hooks.child import Ended
    from sluice.model.feeding import Fed

END_SECONDS = 20.0
COLLECT_SECONDS = 5.0


class ProduceFeedOperator(StreamOperator):
    """Send what the feed gives, until so many events or minutes (params ``events`` and ``minutes``) are over;
    return the range set in which it lies, and what it came to.

    The range's beginning is pinned in the ledger at the first attempt, so what an attempt sent that was
    killed is proved with the rest; the end is fixed once, by the attempt that ends well, and then the
    producer is not started again. The producer itself sees to it that one sends at a time: where the stream's
    own is at work, this run counts what that sends. Red when nothing came at all.
    """

    does = "sends events of the feed, or counts those that the running producer sends"
    fails_if = "nothing came"

    # What a run may take beyond its minutes: to begin, to wait for another producer's end, to send the rest.
    beyond_seconds = 120.0
    # Airflow kills a task 5 s after it has told it to end; the producer has to be gone by then.
    kill_seconds = 3.0

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._child: Child | None = None
        self._killed = False

    def work(self, context: Context) -> dict[str, Any]:
        run_id, hook, topic = context["run_id"], self.platform_hook, self.spec.topic.name
        plan = feeds.pin(
            self.ledger,
            hook.kafka,
            run_id=run_id,
            stream=self.stream,
            topic=topic,
            feed=self.spec.feed_url(hook.platform.feeds),
            params=dict(context["params"]),
        )
        waiting = plans.pending(self.ledger, plan)
        for source in waiting:
            fed = self._produce(source, int(plan["params"]["events"]), int(plan["params"]["minutes"]))
            feeds.finish(self.ledger, source, fed, hook.kafka.ends(topic), run_id)
        if not waiting:
            self.log.info("what the feed gave was sent before; the producer is not started")
        return self._summary(run_id, sent_now=bool(waiting))

    def _produce(self, source: Document, events: int, minutes: int) -> Fed:
        """One run of the producer. Raises where it did not end well, or said something else than it must."""
        ended = self._run(["--events", str(events), "--minutes", str(minutes)], timedelta(minutes=minutes))
        name = f"the producer of stream {self.stream!r}"
        if self._killed:
            raise AirflowException(f"{name} was ended with its task; another attempt begins where this did")
        if ended.status != 0:
            reason = last_reason(ended.errors)
            kind = AirflowFailException if is_hopeless(reason) else AirflowException
            how = f"ended with {ended.status}" if ended.status > 0 else f"was killed (signal {-ended.status})"
            raise kind(f"{name} {how}: {reason}")
        try:
            fed = feeding.parse(ended.result)
        except ValueError as error:
            raise AirflowFailException(f"{name} ended well, and {error}") from error
        self.log.info("%s", " ".join(f"{key}={value}" for key, value in fed.counts().items()))
        if fed.events < events and fed.seconds < minutes * 60 - 1:
            raise AirflowException(
                f"{name} ended after {fed.seconds:g} s with {fed.events} of {events} events: it was told to"
            )
        if not fed.events:
            raise AirflowException(f"{name}: nothing came within {minutes} min from {plans.name_of(source)}")
        return fed

    def _run(self, arguments: list[str], limit: timedelta) -> Ended:
        command = [sys.executable, *self.spec.part("producer").arguments, *arguments]
        seconds = limit.total_seconds() + self.beyond_seconds
        until = time.monotonic() + seconds
        self.log.info("starting %s", " ".join(command))
        child = self._child = Child(command, STREAMS.parent, lambda line: self.log.info("%s", line))
        try:
            if self._killed:
                # Airflow said so before there was a process to end.
                child.end(self.kill_seconds)
            ended = child.wait(max(until - time.monotonic(), 0.0))
        finally:
            # Whatever ended the waiting, the task's timeout say: it does not outlive the task.
            child.end(END_SECONDS)
            child.wait(COLLECT_SECONDS)
        if ended is None:
            raise AirflowException(
                f"the producer of stream {self.stream!r} did not end within {seconds:.0f} s; it was killed"
            )
        return ended

    def _summary(self, run_id: str, sent_now: bool) -> dict[str, Any]:
        plan, documents = plans.produced(self.ledger, run_id)
        total = plans.offsets_of_all(documents)
        sources = [
            {
                "feed": source["feed"],
                "source_id": source["source_id"],
                "offsets": plans.offsets_of(document).count,
                "sent_now": sent_now,
                **document["counts"],
            }
            for source, document in zip(plan["sources"], documents, strict=True)
        ]
        self.log.info("%d records: %s", total.count, total)
        return {
            "topic": plan["topic"],
            "records": total.count,
            "ranges": {str(p): [list(pair) for pair in ranges] for p, ranges in total.partitions.items()},
            "sources": sources,
        }

    def on_kill(self) -> None:
        # It ends well when it is told to end, with a part of what was wanted: that is no result of this run.
        self._killed = True
        if self._child is not None:
            self._child.end(self.kill_seconds)
