"""A load's plan: which object versions it means, and between which offsets their rows lie.

Everything is pinned in the ledger by whoever comes first, so that a retried, a cleared and a second run mean
the same versions and the same offsets. The plan of a load from a feed is made in :mod:`sluice.hooks.feed`;
from there on both are alike, but for how a source is named and what mends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sluice.clients.errors import Missing, Refused
from sluice.clients.keys import Document, begin_key, produced_key, run_key
from sluice.model.ranges import RangeSet

if TYPE_CHECKING:
    from sluice.clients.bucket import Bucket, ObjectVersion
    from sluice.clients.kafka import KafkaAdmin
    from sluice.clients.ledger import Ledger

# A source's kind; one without is an object's version.
FEED = "feed"


def pin(
    ledger: Ledger,
    bucket: Bucket,
    kafka: KafkaAdmin,
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
            raise Refused(f"{source.uri}: has no header line; upload the file with one, or leave it out")
    # Read once and before anything is sent: every row of these sources gets an offset at or behind these.
    ends = kafka.ends(topic)
    sources = [_begin(ledger, source, topic=topic, ends=ends, run_id=run_id) for source in objects]
    produced = [ledger.get(produced_key(source["source_id"])) is not None for source in sources]
    return ledger.put(
        run_key(run_id, "plan"),
        {
            "run_id": run_id,
            "stream": stream,
            "topic": topic,
            "params": dict(params),
            "sources": [{**source, "produced": done} for source, done in zip(sources, produced, strict=True)],
            "at": now(),
        },
    )


def _begin(
    ledger: Ledger, source: ObjectVersion, *, topic: str, ends: Mapping[int, int], run_id: str
) -> Document:
    begin = ledger.put(
        begin_key(source.source_id),
        {
            "source_id": source.source_id,
            "bucket": source.bucket,
            "key": source.key,
            "version_id": source.version_id,
            "etag": source.etag,
            "size": source.size,
            "topic": topic,
            "lanes": len(ends),
            "begin": {str(partition): offset for partition, offset in sorted(ends.items())},
            "run_id": run_id,
            "at": now(),
        },
    )
    if begin["topic"] != topic:
        raise Refused(
            f"{source.uri} was planned for topic {begin['topic']!r} and the stream's is {topic!r} now; "
            "upload the file again (a new version is a new source) to load it into the new topic"
        )
    return begin


def settle(ledger: Ledger, source: Document, ends: Mapping[int, int], run_id: str, **more: Any) -> Document:
    """Record that every row of ``source`` was sent, and lies before ``ends``. Returns what is recorded.

    ``more``: what else is to be recorded with it. Raises Refused where the topic ends before the source's
    begin: it was made anew in between.
    """
    ranges: dict[str, list[int]] = {}
    for partition, begin in source["begin"].items():
        end = ends.get(int(partition), 0)
        if end < begin:
            raise Refused(
                f"topic {source['topic']!r} partition {partition} ends at {end}, before offset {begin} at "
                f"which {name_of(source)} was planned: the topic was made anew; {_again(source)}"
            )
        ranges[partition] = [begin, end]
    return ledger.put(
        produced_key(source["source_id"]),
        {"source_id": source["source_id"], "ranges": ranges, "run_id": run_id, "at": now(), **more},
    )


def is_feed(source: Document) -> bool:
    """Whether a plan's source is what a feed gave during the run; else it is an object's version."""
    return bool(source.get("kind") == FEED)


def name_of(source: Document) -> str:
    """What a plan's source is called, in messages and tables."""
    return f"feed {source['feed']}" if is_feed(source) else f"s3://{source['bucket']}/{source['key']}"


def _again(source: Document) -> str:
    if is_feed(source):
        return "trigger a new run"
    return "upload the file again (a new version is a new source)"


def pending(ledger: Ledger, plan: Document) -> list[Document]:
    """The plan's sources that nobody has sent to the end, as the ledger says now."""
    return [source for source in plan["sources"] if ledger.get(produced_key(source["source_id"])) is None]


def produced(ledger: Ledger, run_id: str) -> tuple[Document, list[Document]]:
    """The run's plan, and what was produced of each of its sources.

    Raises Missing where the produce step has not ended well.
    """
    plan = ledger.get(run_key(run_id, "plan"))
    if plan is None:
        raise Missing(
            f"run {run_id!r} has no plan ({ledger.uri(run_key(run_id, 'plan'))}); clear its produce task"
        )
    documents = []
    for source in plan["sources"]:
        document = ledger.get(produced_key(source["source_id"]))
        if document is None:
            raise Missing(f"{name_of(source)} is not produced yet; clear the produce task")
        documents.append(document)
    return plan, documents


def offsets_of(document: Document) -> RangeSet:
    """The offsets between which one source's rows lie."""
    return RangeSet.of({int(partition): [pair] for partition, pair in document["ranges"].items()})


def offsets_of_all(documents: list[Document]) -> RangeSet:
    """The load's range set: the union over its sources."""
    total = RangeSet()
    for document in documents:
        total = total.union(offsets_of(document))
    return total


def now() -> str:
    """UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
