"""What a load sent: the offset ranges of its sources, recorded once each, and all of them in one document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sluice.config.stream import PRODUCE
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.json_record import Document
from sluice.core.offsets.ranges import OffsetRanges
from sluice.ledger.keys import now, produced_key, run_key
from sluice.loads import sources
from sluice.loads.planning.plan import names_again
from sluice.loads.sources.base import Source

if TYPE_CHECKING:
    from sluice.ledger.documents import Ledger


def pending(ledger: Ledger, plan: Document) -> Iterator[Source]:
    """The plan's sources that are not completely sent yet; a GET for each that is asked for."""
    for source in sources.read_all(plan["sources"]):
        if not source.is_sent and ledger.get(produced_key(source.source_id)) is None:
            yield source


def complete_source(ledger: Ledger, source: Source, ends: Mapping[int, int], run_id: str) -> Document:
    """Record that every row of ``source`` was sent before ``ends``; returns the first such record.

    Raises Refused if the topic ends before the source's start offsets: it was recreated.
    """
    ranges: dict[str, list[int]] = {}
    for partition, start in source.starts_until(ends).items():
        end = ends.get(partition, 0)
        if end < start:
            raise Refused(
                f"topic {source.document['topic']!r} partition {partition} ends at {end}, before offset "
                f"{start} at which {source.name} was planned: the topic was recreated. "
                f"Fix: {source.send_again()}",
                ErrorCode.SOURCE_TOPIC_CHANGED,
            )
        ranges[str(partition)] = [start, end]
    return ledger.put(
        produced_key(source.source_id),
        {"source_id": source.source_id, "ranges": ranges, "run_id": run_id, "at": now()},
    )


def complete(ledger: Ledger, plan: Document, ends: Mapping[int, int]) -> Document:
    """Record the offset ranges of the plan's sources, each and all of them in one document, once all are
    sent. ``ends``: the topic's, read after that. Raises Missing if the record of a source that an earlier run
    sent is gone; else errors as of :func:`complete_source`."""
    from sluice.clients.s3.requests import at_once

    run_id = plan["run_id"]

    def complete_one(source: Source) -> Document:
        if source.is_sent:
            # Not recorded again if it is gone: this run sent nothing of it.
            return ledger.require(produced_key(source.source_id), PRODUCE)
        return complete_source(ledger, source, ends, run_id)

    def create() -> Document:
        ranges = {
            document["source_id"]: {name: document[name] for name in ("ranges", "run_id")}
            for document in at_once(sources.read_all(plan["sources"]), complete_one)
        }
        end_offsets = {str(partition): end for partition, end in sorted(ends.items())}
        return {"run_id": run_id, "sources": ranges, "end_offsets": end_offsets, "at": now()}

    return ledger.pin(run_key(run_id, "produced"), create)


def of_run(ledger: Ledger, run_id: str, task: str = PRODUCE) -> Document:
    """What :func:`complete` recorded. Raises Missing before ``task`` succeeded."""
    return ledger.require(run_key(run_id, "produced"), task)


def offsets_of(document: Document) -> OffsetRanges:
    """A source's offset ranges, from its own record or its entry in the load's."""
    return OffsetRanges.of({int(partition): [pair] for partition, pair in document["ranges"].items()})


def offsets_of_all(document: Document) -> OffsetRanges:
    """The load's offset ranges, over all sources of its produced document."""
    pairs: dict[int, list[list[int]]] = {}
    for source in document["sources"].values():
        for partition, pair in source["ranges"].items():
            pairs.setdefault(int(partition), []).append(pair)
    return OffsetRanges.of(pairs)


def end_offsets(document: Document) -> dict[int, int]:
    """The topic's end offsets after the load's sources had been sent, from its produced document."""
    return {int(partition): end for partition, end in document["end_offsets"].items()}


def summary(ledger: Ledger, plan: Document, document: Document) -> dict[str, Any]:
    """What was produced, as a return value: counts, and where the ledger has each source. ``document``: of
    :func:`complete`."""
    run_id, sent = plan["run_id"], document["sources"].values()
    again = {"uploaded_again": names_again(plan)} if "uploaded_again" in plan else {}
    return {
        "topic": plan["topic"],
        "records": offsets_of_all(document).count,
        "sources": len(plan["sources"]),
        "sent_by_earlier_runs": sum(source["run_id"] != run_id for source in sent),
        "verified_before": plan["verified_before"]["count"],
        "reverted": len(plan["reverted"]),
        **again,
        "plan": ledger.uri(run_key(run_id, "plan")),
        "produced": ledger.uri(run_key(run_id, "produced")),
    }
