"""A load's plan: its sources, and the offset ranges of their rows.

Everything is recorded once in the ledger, so a retried, a cleared and a second run use the same sources and
offsets. A source is an object version, a generator's parameters, or what a feed gave during the run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sluice.config import load_params
from sluice.config.sections import generator as generated
from sluice.config.sections.generator import Generator
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.json_record import Document
from sluice.core.messages import MAX_PROBLEMS, summarize
from sluice.core.offsets.ranges import OffsetRanges
from sluice.ledger.keys import planned_key, produced_key, run_key
from sluice.loads.contents import Known
from sluice.loads.object_contents import Found, ObjectContents
from sluice.loads.verified import NewSources, VerifiedSources, without_verified

if TYPE_CHECKING:
    from sluice.clients.kafka.admin import KafkaAdmin
    from sluice.clients.lake.catalog import Head
    from sluice.clients.s3.objects import Bucket, ObjectVersion
    from sluice.config.sending_rules import SendingRules
    from sluice.ledger.documents import Ledger

    # The newest snapshots of table and quarantine, by table.
    Heads = Callable[[], Mapping[str, Head]]

# A source's kind; an object version has none.
FEED, GENERATED = "feed", "generated"


def pin(
    ledger: Ledger,
    kafka: KafkaAdmin,
    sources: Callable[[Document], list[Document]],
    *,
    run_id: str,
    topic: str,
    params: Mapping[str, Any],
    defaults: Mapping[str, Any],
    heads: Heads = dict,
    rules: Callable[[], SendingRules] | None = None,
) -> Document:
    """The run's plan in the ledger, or a new one of ``sources(params in their normal form)``.

    ``sources`` leaves out verified ones (:func:`sluice.loads.verified.without_verified`); the plan names
    their number. ``defaults``: of the params that choose the records. Raises Refused if the plan was made for
    others: the run id belonged to a run that was deleted, and its plan would pass without loading what is
    requested now. Errors of ``sources`` are passed on. ``rules``: by which rows become records, of
    the sources that are planned now.
    """
    from sluice.clients.s3.requests import at_once

    requested = load_params.normalise(params, defaults)

    def create() -> Document:
        found = sources(requested)
        # Read once and before anything is sent: every row of these sources gets an offset at or after the
        # ends, and is in a file that is committed after the heads.
        more: Document = {"main": {name: asdict(head) for name, head in heads().items()}}
        if rules is not None:
            more["rules"] = rules().to_document()
        ends = kafka.ends(topic)
        planned = at_once(
            found,
            lambda source: _plan_source(ledger, {**source, **more}, topic=topic, ends=ends, run_id=run_id),
        )
        plan = {"run_id": run_id, "stream": ledger.stream, "topic": topic, "params": requested}
        new = found if isinstance(found, NewSources) else NewSources(found, {"count": 0})
        return {
            **plan,
            **new.more,
            "sources": planned,
            "verified_before": new.verified,
            "reverted": new.reverted,
            "at": now(),
        }

    plan = ledger.pin(run_key(run_id, "plan"), create)
    # Also a concurrent first attempt's.
    _check_params(ledger, plan, requested, defaults, run_id)
    return plan


def _check_params(
    ledger: Ledger, plan: Document, requested: Document, defaults: Mapping[str, Any], run_id: str
) -> None:
    # Every version recorded params, earlier ones the form as it was. Without them it is unknown what the
    # plan is for; a refusal loses nothing, as another run sends only what is missing.
    if "params" in plan:
        recorded = load_params.normalise(plan["params"], defaults)
        different = load_params.differences(recorded, requested)
    else:
        different = ["the plan has no params"]
    if different:
        raise Refused(
            f"run id {run_id!r} has a plan for other params: {'; '.join(different)} "
            f"({ledger.uri(run_key(run_id, 'plan'))}, of {plan.get('at')}). A run id keeps its plan, also "
            "when its run is deleted; nothing was sent. Fix: trigger a run with another run id",
            ErrorCode.RUN_ID_REUSED,
        )


def object_sources(
    ledger: Ledger,
    bucket: Bucket,
    params: Mapping[str, Any],
    verified: VerifiedSources | None = None,
    check: Callable[[ObjectContents, Sequence[Found]], None] = lambda *_: None,
) -> NewSources:
    """The object versions that ``params`` (source_prefix, objects) select, without verified ones (unless
    ``verify_again``). Without ``verified`` nothing is known of earlier loads.

    A version with the content of an earlier one is that one's source; the plan names it as
    ``uploaded_again``. With ``withhold`` each new one is ``withheld``: the stream leaves its records to a
    change. Raises Missing if an object does not exist, Refused if one has no header line, is to be withheld
    and replaces nothing, or has other content than what was loaded under its key, unless ``withhold`` or
    ``load_changed_objects``. ``check`` may refuse what is to be published beside other contents.
    """
    objects = bucket.resolve(params.get("source_prefix") or "", params.get("objects") or ())
    by_id = {source.source_id: source for source in objects}
    before = None if params.get("verify_again") else verified
    new = without_verified([document_of(source) for source in by_id.values()], before)
    selected = [by_id[document["source_id"]] for document in new]
    withheld = {"withheld": True} if params.get("withhold") else {}
    if verified is None:
        check_headers(bucket, selected)
        return NewSources((document | withheld for document in new), new.verified, new.reverted)
    is_asked = bool(withheld or params.get("load_changed_objects"))
    contents = ObjectContents(ledger, bucket, verified, is_asked, objects.single)

    def choose(found: list[Found]) -> list[Found]:
        if not withheld:
            check(contents, found)
        if changed := [one for one in found if one.known is Known.CHANGED and not is_asked]:
            raise _changed(contents, changed)
        if withheld:
            _check_replaces(found)
        check_headers(bucket, [one.version for one in found if one.is_own])
        return [one for one in found if one.known is not Known.REVERTED]

    found = contents.claim(selected, choose)
    own = [one.document() | withheld for one in found if one.is_own]
    same = [one.document() | withheld for one in found if one.known is Known.SAME]
    again = without_verified(same, before)
    return NewSources(
        [*own, *again],
        VerifiedSources.both(new.verified, again.verified),
        [*new.reverted, *(one.source_id for one in found if one.known is Known.REVERTED)],
        {"uploaded_again": [one.uploaded_again() for one in found if not one.is_own]},
    )


def _check_replaces(withheld: Iterable[Found]) -> None:
    """Raises Refused for an object that replaces nothing: its records would stay in quarantine."""
    for one in withheld:
        if one.known is Known.NEW:
            raise Refused(
                f"{one.version.uri}: no other content of it was loaded, or all of that was reverted, so "
                "withheld records would wait for nothing. Fix: load it without withhold",
                ErrorCode.INVALID_PARAMETER,
            )


def _changed(contents: ObjectContents, changed: Sequence[Found]) -> Refused:
    """Why objects are not loaded of which other content was loaded before."""
    problems, stream = [], contents.ledger.stream
    for one in changed[:MAX_PROBLEMS]:
        other = one.others[-1]
        planned, is_sent = contents.sent(other)
        run = (planned or {}).get("run_id", "unknown")
        problems.append(
            f"{one.version.uri}: its version {one.version.version_id or one.version.etag} has other content "
            f"than its version {other.version_id or other.etag}, which run {run!r} "
            f"{'has loaded' if is_sent else 'has planned, and may have sent a part of'}"
        )
    if more := len(changed) - len(problems):
        problems.append(f"and {more} more")
    return Refused(
        f"{'; '.join(problems)}. Nothing was sent. Fix: trigger {stream}_load with objects and withhold, "
        f"then {stream}_change with action replace; or {stream}_load with load_changed_objects, which loads "
        "the rows beside the older ones",
        ErrorCode.KEY_ALREADY_LOADED,
    )


def document_of(source: ObjectVersion) -> Document:
    return {"source_id": source.source_id, **asdict(source)}


def check_headers(bucket: Bucket, selected: Sequence[ObjectVersion]) -> None:
    """Raises Refused if an object has no header line."""
    from sluice.clients.s3.requests import at_once

    for source, has_header in zip(selected, at_once(selected, bucket.has_header), strict=True):
        if not has_header:
            raise Refused(
                f"{source.uri}: no header line. Fix: upload the file with one, or leave it out",
                ErrorCode.INVALID_HEADER,
            )


def generated_source(
    generator: Generator, run_id: str, params: Mapping[str, Any], moment: datetime
) -> list[Document]:
    """The generator's parameters in ``params``. By default the events end with the last full hour before
    ``moment`` (aware), since queries leave out events that are dated ahead, and ``seed`` is the run's own.

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
    if "start_time" not in given:
        start = generated.truncate_to_hour(moment - (parameters.ends - parameters.begins))
        parameters = replace(parameters, values={**parameters.values, "start_time": start})
    generated.check_not_in_future(parameters, datetime.now(UTC), where)
    source = {"source_id": parameters.source_id, "kind": GENERATED, "parameters": dict(parameters.values)}
    return [source]


def feed_source(kafka: KafkaAdmin, run_id: str, topic: str, feed: str) -> list[Document]:
    """What ``feed`` (address) gives from now on. Each run is a source of its own: a feed has no versions."""
    source_id = f"feed-{hashlib.sha256(run_id.encode()).hexdigest()[:16]}"
    return [{"source_id": source_id, "kind": FEED, "feed": feed, "topic_id": kafka.describe(topic).id}]


def _plan_source(
    ledger: Ledger, source: Document, *, topic: str, ends: Mapping[int, int], run_id: str
) -> Document:
    document = {
        **source,
        "topic": topic,
        "partition_count": len(ends),
        "start_offsets": {str(partition): offset for partition, offset in sorted(ends.items())},
        "run_id": run_id,
        "at": now(),
    }
    planned = ledger.put(planned_key(source["source_id"]), document)
    if planned["topic"] != topic:
        raise Refused(
            f"{name_of(source)} was planned for topic {planned['topic']!r}, not {topic!r}. "
            f"Fix: {_again(source)}",
            ErrorCode.SOURCE_TOPIC_CHANGED,
        )
    if bool(planned.get("withheld")) != bool(source.get("withheld")) and not is_feed(source):
        was = "with" if planned.get("withheld") else "without"
        raise Refused(
            f"{name_of(source)} was planned {was} withhold by run {planned['run_id']!r}, and is sent as "
            f"it was planned; nothing was sent. Fix: trigger it {was} withhold",
            ErrorCode.INVALID_PARAMETER,
        )
    # What was planned just now was never sent.
    is_new = planned is document
    # Of two versions with the same content the newest is read: an earlier one may be gone.
    newest: Document = {name: source[name] for name in ("version_id", "etag") if name in source}
    return {**planned, **newest, "produced": not is_new and _produced(ledger, planned) is not None}


def _produced(ledger: Ledger, source: Document) -> Document | None:
    return ledger.get(produced_key(source["source_id"]))


def start_offsets(sources: Sequence[Document]) -> dict[int, int]:
    """Partition -> the first offset that a row of one of the sources may have; 0 for other partitions."""
    starts = [_by_partition(source.get("start_offsets", {})) for source in sources]
    return {
        partition: min(offsets.get(partition, 0) for offsets in starts)
        for partition in {partition for offsets in starts for partition in offsets}
    }


def _by_partition(offsets: Mapping[str, int]) -> dict[int, int]:
    return {int(partition): offset for partition, offset in offsets.items()}


def head_of(document: Document, table: str) -> Head | None:
    """The newest snapshot of the table when a source was planned, or in a baseline; None if it had none, or
    an earlier version wrote the document."""
    from sluice.clients.lake.catalog import Head

    found = document.get("main", {}).get(table)
    return Head(**found) if found else None


def complete_source(ledger: Ledger, source: Document, ends: Mapping[int, int], run_id: str) -> Document:
    """Record that every row of ``source`` was sent before ``ends``; returns the first such record.

    Of a feed, a partition added since the plan counts from its first offset. Raises Refused if the topic ends
    before the source's start offsets: it was recreated.
    """
    ranges: dict[str, list[int]] = {}
    added = {str(partition): 0 for partition in sorted(ends)} if is_feed(source) else {}
    for partition, start in (added | source["start_offsets"]).items():
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


def is_feed(source: Document) -> bool:
    return bool(source.get("kind") == FEED)


def reverted_of(plan: Document, reverted: Collection[str]) -> list[str]:
    """What a change took out of what the plan is of, by object or source id. ``reverted``: ids of sources."""
    # Of an interval all of its files, which other loads may have verified.
    files: list[Document] = plan["files"] if "files" in plan else plan["sources"]
    return sorted(
        {one["key"] if "key" in one else one["source_id"] for one in files if one["source_id"] in reverted}
    )


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
    return "upload the file again (for another topic it is a new source)"


def pending(ledger: Ledger, plan: Document) -> Iterator[Document]:
    """The plan's sources that are not completely sent yet; a GET for each that is asked for."""
    return (s for s in plan["sources"] if not s.get("produced") and _produced(ledger, s) is None)


def complete(ledger: Ledger, plan: Document, ends: Mapping[int, int]) -> Document:
    """Record the offset ranges of the plan's sources, each and all of them in one document, once all are
    sent. ``ends``: the topic's, read after that. Raises Missing if the record of a
    source that an earlier run sent is gone; else errors as of :func:`complete_source`."""
    from sluice.clients.s3.requests import at_once

    run_id = plan["run_id"]

    def complete_one(source: Document) -> Document:
        if source.get("produced"):
            # Not recorded again if it is gone: this run sent nothing of it.
            return ledger.require(produced_key(source["source_id"]), "produce")
        return complete_source(ledger, source, ends, run_id)

    def create() -> Document:
        ranges = {
            document["source_id"]: {name: document[name] for name in ("ranges", "run_id")}
            for document in at_once(plan["sources"], complete_one)
        }
        end_offsets = {str(partition): end for partition, end in sorted(ends.items())}
        return {"run_id": run_id, "sources": ranges, "end_offsets": end_offsets, "at": now()}

    return ledger.pin(run_key(run_id, "produced"), create)


def plan_of(ledger: Ledger, run_id: str) -> Document:
    """The run's plan. Raises Missing if there is none."""
    return ledger.require(run_key(run_id, "plan"), "produce")


def produced(ledger: Ledger, run_id: str) -> Document:
    """What :func:`complete` recorded. Raises Missing before task produce succeeded."""
    return ledger.require(run_key(run_id, "produced"), "produce")


def offsets_of(document: Document) -> OffsetRanges:
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
    return _by_partition(document["end_offsets"])


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
        "verified_before": plan.get("verified_before", {}).get("count", 0),
        "reverted": len(plan.get("reverted", [])),
        **again,
        "plan": ledger.uri(run_key(run_id, "plan")),
        "produced": ledger.uri(run_key(run_id, "produced")),
    }


def names_again(plan: Document) -> str:
    """The objects whose newest version has the content of an earlier one: the first few, and their number."""
    return summarize([f"s3://{one['bucket']}/{one['key']}" for one in plan.get("uploaded_again", [])])


def now() -> str:
    """UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
