"""A load's plan: which sources it means, and between which offsets their rows lie.

Everything is pinned in the ledger by whoever comes first, so that a retried, a cleared and a second run mean
the same sources and the same offsets. Plans of object versions, generated rows and feeds are alike, but for
how a source is named and what mends it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from sluice.clients.errors import Missing, Refused
from sluice.model.error_codes import ErrorCode
from sluice.model.spec import generator as generated
from sluice.model.spec.generator import Generator
from sluice.model.spec.ledger import Document, planned_key, produced_key, run_key
from sluice.model.verification.ranges import OffsetRanges

if TYPE_CHECKING:
    from sluice.clients.kafka_admin import TopicId
    from sluice.clients.ledger import Ledger
    from sluice.clients.objects import ObjectVersion

# A source's kind; one without is an object's version.
FEED, GENERATED = "feed", "generated"


class EndOffsets(Protocol):
    """What a plan asks of Kafka."""

    def ends(self, topic: str) -> dict[int, int]: ...


class Topics(EndOffsets, Protocol):
    """What a feed's plan asks of it."""

    def identify(self, topic: str) -> TopicId: ...


class Objects(Protocol):
    """What a plan asks of the source bucket."""

    def resolve(self, prefix: str, keys: Sequence[str]) -> list[ObjectVersion]: ...

    def has_header(self, source: ObjectVersion) -> bool: ...


def pin(
    ledger: Ledger,
    bucket: Objects,
    kafka: EndOffsets,
    *,
    run_id: str,
    stream: str,
    topic: str,
    params: Mapping[str, Any],
) -> Document:
    """The run's plan: the one in the ledger, or a new one from ``params`` (source_prefix, objects).

    Raises Missing where an object does not exist, Refused where one has no header line.
    """
    pinned = ledger.get(run_key(run_id, "plan"))
    if pinned is not None:
        return pinned
    objects = bucket.resolve(params.get("source_prefix") or "", params.get("objects") or ())
    for source in objects:
        if not bucket.has_header(source):
            raise Refused(
                f"{source.uri}: has no header line; upload the file with one, or leave it out",
                ErrorCode.INVALID_HEADER,
            )
    sources = [_of_object(source) for source in objects]
    return _put(ledger, kafka, sources, run_id=run_id, stream=stream, topic=topic, params=params)


def pin_generated(
    ledger: Ledger,
    kafka: EndOffsets,
    *,
    run_id: str,
    stream: str,
    topic: str,
    generator: Generator,
    params: Mapping[str, Any],
    moment: datetime,
) -> Document:
    """The run's plan: the one in the ledger, or a new one from ``params``.

    Those of ``generator`` are taken. Left empty, ``begin`` is the
    hour of ``moment`` (aware), and ``seed`` one of the run's own. Raises ConfigError for a value that is out
    of its bounds, and for hits that lie so far ahead of now that they would be quarantined.
    """
    pinned = ledger.get(run_key(run_id, "plan"))
    if pinned is not None:
        return pinned
    names = generator.schemas
    given = {name: value for name, value in params.items() if name in names and value not in (None, "")}
    usual = {
        "start_time": generated.truncate_to_hour(moment),
        "seed": int(hashlib.sha256(run_id.encode()).hexdigest()[:8], 16),
    }
    parameters = generated.parse(generator, {**usual, **given}, f"params of run {run_id!r}")
    generated.check_not_in_future(parameters, datetime.now(UTC), f"params of run {run_id!r}")
    source = {
        "source_id": parameters.source_id,
        "kind": GENERATED,
        "parameters": dict(parameters.values),
    }
    return _put(ledger, kafka, [source], run_id=run_id, stream=stream, topic=topic, params=params)


def pin_feed(
    ledger: Ledger,
    kafka: Topics,
    *,
    run_id: str,
    stream: str,
    topic: str,
    feed: str,
    params: Mapping[str, Any],
) -> Document:
    """The run's plan: the one in the ledger, or a new one that begins where the topic ends now.

    A feed has no versions that two runs could share, so each run is a source of its own. ``feed``: address.
    """
    pinned = ledger.get(run_key(run_id, "plan"))
    if pinned is not None:
        return pinned
    source = {
        "source_id": f"feed-{hashlib.sha256(run_id.encode()).hexdigest()[:16]}",
        "kind": FEED,
        "feed": feed,
        "topic_id": kafka.identify(topic).topic_id,
    }
    return _put(ledger, kafka, [source], run_id=run_id, stream=stream, topic=topic, params=params)


def _put(
    ledger: Ledger,
    kafka: EndOffsets,
    sources: Sequence[Document],
    *,
    run_id: str,
    stream: str,
    topic: str,
    params: Mapping[str, Any],
) -> Document:
    # Read once and before anything is sent: every row of these sources gets an offset at or behind these.
    ends = kafka.ends(topic)
    begun = [_begin(ledger, source, topic=topic, ends=ends, run_id=run_id) for source in sources]
    produced = [ledger.get(produced_key(source["source_id"])) is not None for source in begun]
    return ledger.put(
        run_key(run_id, "plan"),
        {
            "run_id": run_id,
            "stream": stream,
            "topic": topic,
            "params": dict(params),
            "sources": [{**source, "produced": done} for source, done in zip(begun, produced, strict=True)],
            "at": now(),
        },
    )


def _of_object(source: ObjectVersion) -> Document:
    return {
        "source_id": source.source_id,
        "bucket": source.bucket,
        "key": source.key,
        "version_id": source.version_id,
        "etag": source.etag,
        "size": source.size,
    }


def _begin(ledger: Ledger, source: Document, *, topic: str, ends: Mapping[int, int], run_id: str) -> Document:
    begin = ledger.put(
        planned_key(source["source_id"]),
        {
            **source,
            "topic": topic,
            "partition_count": len(ends),
            "begin": {str(partition): offset for partition, offset in sorted(ends.items())},
            "run_id": run_id,
            "at": now(),
        },
    )
    if begin["topic"] != topic:
        raise Refused(
            f"{name_of(source)} was planned for topic {begin['topic']!r} and the stream's is {topic!r} now; "
            f"to load it into the new topic, {_again(source)}",
            ErrorCode.SOURCE_TOPIC_CHANGED,
        )
    return begin


def complete_source(ledger: Ledger, source: Document, ends: Mapping[int, int], run_id: str) -> Document:
    """Record that every row of ``source`` was sent, and lies before ``ends``. Returns what is recorded.

    Raises Refused where the topic ends before the source's begin: it was made anew in between.
    """
    ranges: dict[str, list[int]] = {}
    for partition, begin in source["begin"].items():
        end = ends.get(int(partition), 0)
        if end < begin:
            raise Refused(
                f"topic {source['topic']!r} partition {partition} ends at {end}, before offset {begin} at "
                f"which {name_of(source)} was planned: the topic was made anew; {_again(source)}",
                ErrorCode.SOURCE_TOPIC_CHANGED,
            )
        ranges[partition] = [begin, end]
    return ledger.put(
        produced_key(source["source_id"]),
        {"source_id": source["source_id"], "ranges": ranges, "run_id": run_id, "at": now()},
    )


def complete_feed(ledger: Ledger, source: Document, ends: Mapping[int, int], run_id: str) -> Document:
    """As :func:`complete_source`; a partition that was added since the plan counts from its first offset."""
    begin = {str(partition): 0 for partition in sorted(ends)} | source["begin"]
    return complete_source(ledger, {**source, "begin": begin}, ends, run_id)


def is_feed(source: Document) -> bool:
    """Whether a plan's source is what a feed gave during the run."""
    return bool(source.get("kind") == FEED)


def is_generated(source: Document) -> bool:
    """Whether a plan's source is generated; one that neither this nor a feed is, is an object's version."""
    return bool(source.get("kind") == GENERATED)


def name_of(source: Document) -> str:
    """What a plan's source is called, in messages and tables."""
    if is_generated(source):
        return generated.describe(source["parameters"])
    return f"feed {source['feed']}" if is_feed(source) else f"s3://{source['bucket']}/{source['key']}"


def identity_of(source: Document) -> Document:
    """What a plan's source is, beside its id, for results that others read."""
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
    """The plan's sources that nobody has sent to the end, as the ledger says now."""
    return [source for source in plan["sources"] if ledger.get(produced_key(source["source_id"])) is None]


def plan_of(ledger: Ledger, run_id: str) -> Document:
    """The run's plan. Raises Missing where it has none."""
    plan = ledger.get(run_key(run_id, "plan"))
    if plan is None:
        raise Missing(
            f"run {run_id!r} has no plan ({ledger.uri(run_key(run_id, 'plan'))}); clear its produce task"
        )
    return plan


def produced(ledger: Ledger, run_id: str) -> tuple[Document, list[Document]]:
    """The run's plan, and what was produced of each of its sources.

    Raises Missing where the produce step has not ended well.
    """
    plan = plan_of(ledger, run_id)
    documents = []
    for source in plan["sources"]:
        document = ledger.get(produced_key(source["source_id"]))
        if document is None:
            raise Missing(f"{name_of(source)} is not produced yet; clear the produce task")
        documents.append(document)
    return plan, documents


def offsets_of(document: Document) -> OffsetRanges:
    """The offsets between which one source's rows lie."""
    return OffsetRanges.of({int(partition): [pair] for partition, pair in document["ranges"].items()})


def offsets_of_all(documents: list[Document]) -> OffsetRanges:
    """The load's range set: the union over its sources."""
    total = OffsetRanges()
    for document in documents:
        total = total.union(offsets_of(document))
    return total


def now() -> str:
    """UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
