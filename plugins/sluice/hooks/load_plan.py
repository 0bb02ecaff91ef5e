"""A load's plan: its sources, and the offset ranges of their rows.

Everything is recorded once in the ledger, so a retried, a cleared and a second run use the same sources and
offsets. A source is an object version, a generator's parameters, or what a feed gave during the run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sluice.clients.errors import Missing, Refused
from sluice.model.error_codes import ErrorCode
from sluice.model.spec import generator as generated
from sluice.model.spec.generator import Generator
from sluice.model.spec.ledger import Document, planned_key, produced_key, run_key
from sluice.model.verification.ranges import OffsetRanges

if TYPE_CHECKING:
    from sluice.clients.kafka_admin import KafkaAdmin
    from sluice.clients.ledger import Ledger
    from sluice.clients.objects import Bucket

# A source's kind; an object version has none.
FEED, GENERATED = "feed", "generated"


def pin(
    ledger: Ledger,
    kafka: KafkaAdmin,
    sources: Callable[[], list[Document]],
    *,
    run_id: str,
    stream: str,
    topic: str,
    params: Mapping[str, Any],
) -> Document:
    """The run's plan in the ledger, or a new one of ``sources()``. Errors are theirs."""

    def create() -> Document:
        found = sources()
        # Read once and before anything is sent: every row of these sources gets an offset at or after these.
        ends = kafka.ends(topic)
        planned = [_plan_source(ledger, source, topic=topic, ends=ends, run_id=run_id) for source in found]
        done = [ledger.get(produced_key(source["source_id"])) is not None for source in planned]
        listed = [{**source, "produced": produced} for source, produced in zip(planned, done, strict=True)]
        plan = {"run_id": run_id, "stream": stream, "topic": topic, "params": dict(params)}
        return {**plan, "sources": listed, "at": now()}

    return ledger.pin(run_key(run_id, "plan"), create)


def object_sources(bucket: Bucket, params: Mapping[str, Any]) -> list[Document]:
    """The object versions that ``params`` (source_prefix, objects) select.

    Raises Missing if an object does not exist, Refused if one has no header line.
    """
    objects = bucket.resolve(params.get("source_prefix") or "", params.get("objects") or ())
    for source in objects:
        if not bucket.has_header(source):
            raise Refused(
                f"{source.uri}: no header line. Fix: upload the file with one, or leave it out",
                ErrorCode.INVALID_HEADER,
            )
    names = ("source_id", "bucket", "key", "version_id", "etag", "size")
    return [{name: getattr(source, name) for name in names} for source in objects]


def generated_source(
    generator: Generator, run_id: str, params: Mapping[str, Any], moment: datetime
) -> list[Document]:
    """The generator's parameters in ``params``. By default ``start_time`` is the hour of ``moment`` (aware),
    and ``seed`` the run's own.

    Raises ConfigError for a value out of bounds, and for hits so far in the future that they would be
    quarantined.
    """
    where = f"params of run {run_id!r}"
    given = {
        name: value for name, value in params.items() if name in generator.schemas and value not in (None, "")
    }
    usual = {
        "start_time": generated.truncate_to_hour(moment),
        "seed": int(hashlib.sha256(run_id.encode()).hexdigest()[:8], 16),
    }
    parameters = generated.parse(generator, {**usual, **given}, where)
    generated.check_not_in_future(parameters, datetime.now(UTC), where)
    source = {"source_id": parameters.source_id, "kind": GENERATED, "parameters": dict(parameters.values)}
    return [source]


def feed_source(kafka: KafkaAdmin, run_id: str, topic: str, feed: str) -> list[Document]:
    """What ``feed`` (address) gives from now on. Each run is a source of its own: a feed has no versions."""
    source_id = f"feed-{hashlib.sha256(run_id.encode()).hexdigest()[:16]}"
    return [{"source_id": source_id, "kind": FEED, "feed": feed, "topic_id": kafka.topic_id(topic).id}]


def _plan_source(
    ledger: Ledger, source: Document, *, topic: str, ends: Mapping[int, int], run_id: str
) -> Document:
    planned = ledger.put(
        planned_key(source["source_id"]),
        {
            **source,
            "topic": topic,
            "partition_count": len(ends),
            "start_offsets": {str(partition): offset for partition, offset in sorted(ends.items())},
            "run_id": run_id,
            "at": now(),
        },
    )
    if planned["topic"] != topic:
        raise Refused(
            f"{name_of(source)} was planned for topic {planned['topic']!r}, not {topic!r}. "
            f"Fix: {_again(source)}",
            ErrorCode.SOURCE_TOPIC_CHANGED,
        )
    return planned


def complete_source(ledger: Ledger, source: Document, ends: Mapping[int, int], run_id: str) -> Document:
    """Record that every row of ``source`` was sent before ``ends``; returns the first such record.

    Raises Refused if the topic ends before the source's start offsets: it was recreated.
    """
    ranges: dict[str, list[int]] = {}
    for partition, start in source["start_offsets"].items():
        end = ends.get(int(partition), 0)
        if end < start:
            raise Refused(
                f"topic {source['topic']!r} partition {partition} ends at {end}, before offset {start} at "
                f"which {name_of(source)} was planned: the topic was recreated. Fix: {_again(source)}",
                ErrorCode.SOURCE_TOPIC_CHANGED,
            )
        ranges[partition] = [start, end]
    return ledger.put(
        produced_key(source["source_id"]),
        {"source_id": source["source_id"], "ranges": ranges, "run_id": run_id, "at": now()},
    )


def complete_feed(ledger: Ledger, source: Document, ends: Mapping[int, int], run_id: str) -> Document:
    """As :func:`complete_source`; a partition added since the plan counts from its first offset."""
    start_offsets = {str(partition): 0 for partition in sorted(ends)} | source["start_offsets"]
    return complete_source(ledger, {**source, "start_offsets": start_offsets}, ends, run_id)


def is_feed(source: Document) -> bool:
    return bool(source.get("kind") == FEED)


def is_generated(source: Document) -> bool:
    return bool(source.get("kind") == GENERATED)


def name_of(source: Document) -> str:
    """The source's name in messages and tables."""
    if is_generated(source):
        return generated.describe(source["parameters"])
    return f"feed {source['feed']}" if is_feed(source) else f"s3://{source['bucket']}/{source['key']}"


def identity_of(source: Document) -> Document:
    """The source's identity in results and proofs, beside its id."""
    if is_generated(source):
        return {"generated": source["parameters"]}
    if is_feed(source):
        return {"feed": source["feed"]}
    return {"object": name_of(source), "version_id": source["version_id"]}


def _again(source: Document) -> str:
    if is_feed(source):
        return "trigger a new run"
    if is_generated(source):
        return "trigger a new run with another seed"
    return "upload the file again (a new version is a new source)"


def pending(ledger: Ledger, plan: Document) -> list[Document]:
    """The plan's sources that are not completely sent yet."""
    return [source for source in plan["sources"] if ledger.get(produced_key(source["source_id"])) is None]


def plan_of(ledger: Ledger, run_id: str) -> Document:
    """The run's plan. Raises Missing if there is none."""
    return ledger.require(run_key(run_id, "plan"), "produce")


def produced(ledger: Ledger, run_id: str) -> tuple[Document, list[Document]]:
    """The plan, and the produced document of each source. Raises Missing before task produce succeeded."""
    plan = plan_of(ledger, run_id)
    documents = []
    for source in plan["sources"]:
        document = ledger.get(produced_key(source["source_id"]))
        if document is None:
            raise Missing(f"{name_of(source)} is not produced yet. Fix: clear task produce")
        documents.append(document)
    return plan, documents


def offsets_of(document: Document) -> OffsetRanges:
    return OffsetRanges.of({int(partition): [pair] for partition, pair in document["ranges"].items()})


def offsets_of_all(documents: list[Document]) -> OffsetRanges:
    """The load's offset ranges, over all sources."""
    total = OffsetRanges()
    for document in documents:
        total = total.union(offsets_of(document))
    return total


def summary(ledger: Ledger, run_id: str) -> dict[str, Any]:
    """What was produced, as a return value."""
    plan, documents = produced(ledger, run_id)
    total = offsets_of_all(documents)
    return {
        "topic": plan["topic"],
        "records": total.count,
        "ranges": {str(p): [list(pair) for pair in ranges] for p, ranges in total.partitions.items()},
        "sources": [
            {
                **identity_of(source),
                "source_id": source["source_id"],
                "offsets": offsets_of(document).count,
                "sent_by": document["run_id"],
            }
            for source, document in zip(plan["sources"], documents, strict=True)
        ],
    }


def now() -> str:
    """UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
