"""A load's plan: its sources, each with the offsets from which on its rows are.

Everything is recorded once in the ledger, so a retried, a cleared and a second run use the same sources and
offsets. A source that another run planned before keeps that run's start offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from sluice.config.stream import PRODUCE
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.json_record import Document
from sluice.core.messages import summarize
from sluice.ledger import run_documents
from sluice.ledger.keys import now, planned_key, produced_key, run_key
from sluice.loads import sources
from sluice.loads.heads import heads_document
from sluice.loads.known.verified import NewSources
from sluice.loads.sources.base import Source

if TYPE_CHECKING:
    from sluice.clients.kafka.admin import KafkaAdmin
    from sluice.config.sending_rules import SendingRules
    from sluice.config.stream import StreamSpec
    from sluice.ledger.documents import Ledger
    from sluice.loads.heads import Heads
    from sluice.systems import Systems


@dataclass(frozen=True)
class LoadPlanner:
    """Pins plans of loads to ``topic`` in ``ledger``; ``kafka`` tells the topic's offsets before the load.

    ``defaults``: of the params that choose the records. ``heads``: the newest snapshots of table and
    quarantine. ``rules``: by which rows become records, of the sources that are planned now; a feed has none.
    """

    ledger: Ledger
    kafka: KafkaAdmin
    topic: str
    defaults: Mapping[str, Any]
    heads: Heads = dict
    rules: Callable[[], SendingRules] | None = None

    @classmethod
    def of(
        cls,
        systems: Systems,
        spec: StreamSpec,
        ledger: Ledger,
        defaults: Mapping[str, Any],
        rules: Callable[[], SendingRules] | None = None,
    ) -> Self:
        def heads() -> Mapping[str, Any]:
            return systems.lake.heads(spec.table, spec.quarantine_table)

        return cls(ledger, systems.kafka, spec.topic.name, defaults, heads, rules)

    def pin(
        self,
        run_id: str,
        params: Mapping[str, Any],
        select: Callable[[Document], list[Document]],
        triggered: datetime | None = None,
    ) -> Document:
        """The run's plan in the ledger, or a new one of ``select(params in their normal form)``.

        ``select`` leaves out verified sources (``loads.known.verified.without_verified``); the plan
        names their number. Raises Refused if the plan was made for other params, or long before the run
        was ``triggered``: the run id belonged to a run that was deleted, and its plan would pass without
        loading what is requested now. Errors of ``select`` are passed on.
        """
        requested = _normalise(params, self.defaults)
        plan = run_documents.pin(
            self.ledger, run_id, "plan", lambda: self._plan(run_id, requested, select), triggered
        )
        # Also a concurrent first attempt's.
        self._check_params(plan, requested, run_id)
        return plan

    def _plan(
        self, run_id: str, requested: Document, select: Callable[[Document], list[Document]]
    ) -> Document:
        from sluice.clients.s3.requests import at_once

        found = select(requested)
        # Read once and before anything is sent: every row of these sources gets an offset at or after the
        # ends, and is in a file that is committed after the heads.
        more = heads_document(self.heads())
        if self.rules is not None:
            more["rules"] = self.rules().to_document()
        ends = self.kafka.ends(self.topic)
        planned = at_once(
            sources.read_all(found), lambda source: self._plan_source(source, more, ends, run_id)
        )
        new = found if isinstance(found, NewSources) else NewSources(found, {"count": 0})
        return {
            "run_id": run_id,
            "stream": self.ledger.stream,
            "topic": self.topic,
            "params": requested,
            **new.more,
            "sources": planned,
            "verified_before": new.verified,
            "reverted": new.reverted,
            "at": now(),
        }

    def _plan_source(self, source: Source, more: Document, ends: Mapping[int, int], run_id: str) -> Document:
        """As it was planned first, in its own document."""
        document = {
            **more,
            "partition_count": len(ends),
            "start_offsets": {str(partition): offset for partition, offset in sorted(ends.items())},
            # Records that are there already have offsets of their own, and are in older files.
            **source.document,
            "topic": self.topic,
            "run_id": run_id,
            "at": now(),
        }
        first = self.ledger.put(planned_key(source.source_id), document)
        planned = sources.read(first)
        self._check_planned(source, planned)
        # What was planned just now was never sent.
        is_sent = first is not document and self.ledger.get(produced_key(source.source_id)) is not None
        return {**first, **source.of_plan(), "produced": is_sent}

    def _check_planned(self, source: Source, planned: Source) -> None:
        """Raises Refused for a source that was planned to be sent otherwise."""
        if (before := planned.document["topic"]) != self.topic:
            raise Refused(
                f"{source.name} was planned for topic {before!r}, not {self.topic!r}. "
                f"Fix: {source.send_again()}",
                ErrorCode.SOURCE_TOPIC_CHANGED,
            )
        if planned.is_withheld != source.is_withheld:
            was = "with" if planned.is_withheld else "without"
            raise Refused(
                f"{source.name} was planned {was} withhold by run {planned.run_id!r}, and is sent as "
                f"it was planned; nothing was sent. Fix: trigger it {was} withhold",
                ErrorCode.INVALID_PARAMETER,
            )

    def _check_params(self, plan: Document, requested: Document, run_id: str) -> None:
        # A param that the form got since the plan counts as its default. A refusal loses nothing: another run
        # sends only what is missing.
        recorded = _normalise(plan["params"], self.defaults)
        if different := _differences(recorded, requested):
            raise Refused(
                f"run id {run_id!r} has a plan for other params: {'; '.join(different)} "
                f"({self.ledger.uri(run_key(run_id, 'plan'))}, of {plan['at']}). A run id keeps its plan, "
                "also when its run is deleted; nothing was sent. Fix: trigger a run with another run id",
                ErrorCode.RUN_ID_REUSED,
            )


def plan_of(ledger: Ledger, run_id: str, task: str = PRODUCE) -> Document:
    """The run's plan, which ``task`` writes. Raises Missing if there is none."""
    return ledger.require(run_key(run_id, "plan"), task)


def reverted_of(plan: Document, reverted: Collection[str]) -> list[str]:
    """What a change took out of what the plan is of, by object or source id. ``reverted``: ids of sources."""
    # A plan of an interval names all of its files, which other loads may have verified.
    files: list[Document] = plan["files"] if "files" in plan else plan["sources"]
    return sorted(
        {one["key"] if "key" in one else one["source_id"] for one in files if one["source_id"] in reverted}
    )


def names_again(plan: Document) -> str:
    """The objects whose newest version has the content of an earlier one: the first few, and their number."""
    return summarize([f"s3://{one['bucket']}/{one['key']}" for one in plan.get("uploaded_again", [])])


def _normalise(params: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """A value for each of ``defaults``, the form of the source: what is missing or empty has its default.

    ``objects`` are sorted, each once; with them ``source_prefix`` is None, since it chooses nothing. The
    result's own normal form is equal to it. Limits of a load (quarantine, timeouts) are
    not among ``defaults``: each attempt applies its own.
    """
    chosen = {
        name: default if _is_empty(params.get(name)) else params[name] for name, default in defaults.items()
    }
    if chosen.get("objects"):
        chosen |= {"objects": sorted(set(chosen["objects"])), "source_prefix": None}
    return chosen


def _is_empty(value: Any) -> bool:
    return value is None or value in ("", [])


def _differences(recorded: Mapping[str, Any], requested: Mapping[str, Any]) -> list[str]:
    """A text for each param whose values differ, from two normal forms of one form."""
    return [
        f"{name} is {value!r}, the plan has {recorded[name]!r}"
        for name, value in requested.items()
        if value != recorded[name]
    ]
