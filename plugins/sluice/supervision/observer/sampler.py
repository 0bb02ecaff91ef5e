"""Observe a component: its process, and its topic and table, or its heartbeat."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from sluice.clients.kafka.admin import KafkaAdmin
from sluice.clients.processes.base import Runtime
from sluice.config.stream import CONSUMER, StreamSpec
from sluice.core.errors import ClientError, Refused, Unreachable
from sluice.core.tables.position import Position
from sluice.ledger.known_tables import KnownTables
from sluice.supervision.rules.sample import KAFKA, LAKE, PROCESS, Sample

T = TypeVar("T")


# Precision of the first deletion's moment: 1/32 of the retention margin.
BISECTIONS = 5


class Sampler:
    """Observes one component of a stream through one role's clients. Not to be shared between threads."""

    def __init__(
        self,
        kafka: KafkaAdmin,
        tables: Callable[[], KnownTables],
        runtime: Runtime,
        spec: StreamSpec,
        component: str,
        asking: Callable[[str], None] = lambda system: None,
    ) -> None:
        """``tables``: opened for the consumer only; ``asking``: is told which system is waited for, ""
        between requests. Raises ConfigError for an unknown component."""
        self.kafka = kafka
        self.tables = tables
        self.runtime = runtime
        self.spec = spec
        self.component = spec.component(component)
        self._asking = asking
        # System that did not answer -> seconds that were waited for it.
        self.slow: dict[str, float] = {}

    def observe(self, now: float, unreachable: Mapping[str, str] | None = None) -> Sample:
        """A sample at ``now`` (seconds since 1970), with ClientErrors in its ``errors``. Raises ConfigError.

        Takes as long as the clients' deadlines if systems do not answer. ``unreachable``: systems that are
        known not to answer, and why; they are not asked.
        """
        errors = dict(unreachable or {})
        if self.component.name == CONSUMER:
            return self._consumer(now, errors)
        return self._with_heartbeat(now, errors)

    def _ask(self, system: str, errors: dict[str, str], request: Callable[[], T]) -> T | None:
        """The answer, or None with the reason in ``errors``; a system that failed once is not asked again."""
        if system in errors:
            return None
        began = time.monotonic()
        self._asking(system)
        try:
            return request()
        except ClientError as error:
            errors[system] = str(error)
            if isinstance(error, Unreachable):
                self.slow[system] = time.monotonic() - began
            return None
        finally:
            self._asking("")

    def _with_heartbeat(self, now: float, errors: dict[str, str]) -> Sample:
        name, topic = self.component.name, self.spec.topic.name
        process = self._ask(PROCESS, errors, lambda: self.runtime.status(self.component.program))
        heartbeat = self._ask(KAFKA, errors, lambda: self.kafka.heartbeat(self.spec.name, name, topic))
        return Sample(at=now, process=process, errors=errors, heartbeat=heartbeat)

    def _consumer(self, now: float, errors: dict[str, str]) -> Sample:
        topic = self.spec.topic.name
        process = self._ask(PROCESS, errors, lambda: self.runtime.status(self.component.program))
        # Begin offsets before the table and end offsets after it: a publish in between then shows neither
        # lost records nor a position after the end.
        found = self._ask(KAFKA, errors, lambda: self.kafka.describe(topic))
        count = found.partitions if found else 0
        begins = self._ask(KAFKA, errors, lambda: self.kafka.begins(topic, count))
        published = self._ask(LAKE, errors, self._position)
        ends = self._ask(KAFKA, errors, lambda: self.kafka.ends(topic, count))
        sample = Sample(
            at=now,
            process=process,
            topic_id=found.id if found else None,
            begins=begins,
            ends=ends,
            expiring=None,
            published=published,
            errors=errors,
        )
        if errors or not sample.unread():
            return sample
        sample = self._ask(KAFKA, errors, lambda: self._with_expiry(sample)) or sample
        if self.spec.topic.managed and self.spec.feed is None:
            # Nothing that sends to it uses transactions.
            return sample
        return self._ask(KAFKA, errors, lambda: self._with_transactions(sample)) or sample

    def _position(self) -> Position | None:
        """None of a new stream. Raises Refused if its table is lost, which is none."""
        tables = self.tables()
        tables.check(self.spec.table, self.spec.quarantine_table)
        return tables.lake.position(self.spec.table, self.spec.quarantine_table)

    def _with_expiry(self, sample: Sample) -> Sample:
        """Add what retention will delete of the unread records within the retention margin.

        The margin is at most half of the retention time: else all records would always be at risk.
        """
        retention = self.kafka.retention_ms(self.spec.topic.name)
        if retention is None or sample.ends is None:
            return sample
        within = min(float(self.spec.supervision.retention_margin_seconds), retention / 2000)
        expiring = self._retained(sample, retention, within)
        if not _reaches(expiring, sample):
            return replace(sample, expiring=expiring)
        low, high = 0.0, within
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            if _reaches(self._retained(sample, retention, middle), sample):
                high = middle
            else:
                low = middle
        return replace(sample, expiring=expiring, expires_in=high)

    def _with_transactions(self, sample: Sample) -> Sample:
        """Add which partitions wait for an open transaction, and whose it is."""
        topic, ends = self.spec.topic.name, sample.ends or {}
        sample = replace(sample, stable=self.kafka.last_stable(topic, len(ends)))
        waiting = [partition for partition in ends if sample.waits_for_transaction(partition)]
        if not waiting:
            return sample
        try:
            return replace(sample, transactions=self.kafka.open_transactions(topic, waiting))
        except Refused:
            # Without the right to read the topic it is not known whose it is.
            own = "the stream's own producer, or of another program that writes to its topic"
            return replace(sample, transactions=dict.fromkeys(waiting, own)) if self.spec.feed else sample

    def _retained(self, sample: Sample, retention_ms: int, seconds: float) -> dict[int, int]:
        at_ms = int((sample.at + seconds) * 1000) - retention_ms
        return self.kafka.first_after(self.spec.topic.name, at_ms, sample.ends or {})


def _reaches(retained: dict[int, int], sample: Sample) -> bool:
    return any(retained[partition] > sample.first_unread(partition) for partition in sample.unread())
