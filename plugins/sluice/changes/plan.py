"""The plan of a change, from what is asked for: checked, counted and pinned before anything is done."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sluice.core.changes.plan import MAX_RECORDS, Action, ChangePlan, ChangeResult, change_id
from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Missing, Refused
from sluice.core.json_record import Document
from sluice.core.offsets.quarantine import DUPLICATE, WITHHELD
from sluice.core.offsets.ranges import IntervalSet, OffsetRanges
from sluice.core.offsets.topic_ranges import RangesInvalid, TopicRanges
from sluice.ledger.keys import change_key, load_ids_prefix, load_of, produced_key, run_key
from sluice.loads import plan as plans
from sluice.loads.contents import Known
from sluice.loads.object_contents import ObjectContents
from sluice.loads.verified import VerifiedSources

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluice.clients.kafka.admin import KafkaAdmin
    from sluice.clients.lake.catalog import Lake, Position
    from sluice.config.stream import StreamSpec
    from sluice.core.changes.published import Changes
    from sluice.ledger.documents import Ledger
    from sluice.systems import Systems


def pin(ledger: Ledger, run_id: str, params: Mapping[str, Any], create: Callable[[], Document]) -> Document:
    """The run's plan in the ledger, or a new one. Raises Refused if it was made for other params."""
    asked = {name: value for name, value in sorted(params.items()) if value not in (None, "", [])}
    plan = ledger.pin(run_key(run_id, "change"), lambda: {**create(), "params": asked, "at": plans.now()})
    # Each attempt: one may have ended before it.
    ledger.pin(change_key(change_id(run_id)), lambda: {"run_id": run_id})
    if plan["params"] != asked:
        raise Refused(
            f"run id {run_id!r} has a plan for another change, {json.dumps(plan['params'])}; asked for is "
            f"{json.dumps(asked)}. A run id keeps its plan, also when its run is deleted; nothing was "
            "changed. Fix: trigger a run with another run id",
            ErrorCode.RUN_ID_REUSED,
        )
    return plan


def is_made(ledger: Ledger, run_id: str, plan: ChangePlan, changes: Changes) -> bool:
    """Whether a run's change is published: the table names it, or it was verified and so many came later that
    it is not named any more."""
    named = changes.after(plan.changes)
    return named == plan.id or (named == "" and is_verified(ledger, run_id))


def is_verified(ledger: Ledger, run_id: str) -> bool:
    return ledger.get(run_key(run_id, "change-proof")) is not None


def run_of(ledger: Ledger, change: str) -> str | None:
    """The run id of a change, if the ledger names it."""
    found = ledger.get(change_key(change))
    return str(found["run_id"]) if found else None


class ChangePlanner:
    """Plans changes of one stream. Each method raises Refused or Missing with the reason and the fix."""

    def __init__(self, systems: Systems, spec: StreamSpec, ledger: Ledger, run_id: str) -> None:
        self.spec, self.ledger, self.run_id = spec, ledger, run_id
        self._s3, self._source = systems.s3, systems.source.within(spec.source_prefix)
        self.lake: Lake = systems.lake
        self.kafka: KafkaAdmin = systems.kafka
        position = self.lake.position(spec.table)
        if position is None:
            raise Missing(
                f"{spec.table} has no published record. Fix: load the stream first", ErrorCode.TABLE_NOT_FOUND
            )
        self.position: Position = position
        self.changes = self.lake.changes(spec.table)
        topic_id = self.kafka.describe(spec.topic.name).id
        if topic_id != position.topic_id:
            raise _refused(
                f"topic {spec.topic.name!r} was recreated: its id is {topic_id}, {spec.table} has "
                f"{position.topic_id}, so its offsets are of other records",
                "restore the topic, or give the stream a new table",
            )
        self.published = OffsetRanges.from_ends(position.starts, position.ends)

    def plan(self, params: Mapping[str, Any]) -> ChangePlan:
        match Action(params["action"]):
            case Action.REPLAY:
                return self.replay(params)
            case Action.RETRY:
                return self.retry(params)
            case Action.REVERT:
                return self.revert(self._required(params, "load"))
            case Action.REDO if params.get("ranges"):
                return self.redo_records(params)
            case Action.REDO:
                return self.redo(self._required(params, "load"), is_partial=bool(params.get("partial")))
            case Action.REMOVE:
                return self.remove(self._required(params, "ranges"))
            case Action.REPLACE:
                return self.replace(self._required(params, "object"))
        raise _refused(f"action {params['action']!r} is not known", "choose another")

    def replay(self, params: Mapping[str, Any]) -> ChangePlan:
        """``ranges`` (text), or ``from_time`` and ``until_time`` (ISO 8601); without what a change took out,
        and what is withheld."""
        asked = self._ranges(params)
        if removed := asked.intersect(self.removed().removed):
            asked = asked.minus(removed)
        asked = asked.minus(self._withheld())
        there = self._readable(asked, is_partial=bool(params.get("partial")))
        if not there:
            raise _refused(
                "no record is in the range",
                "choose another; action redo brings a reverted load back, action replace withheld records",
            )
        return self._made(Action.REPLAY, rows_out=there, rows_in=there)

    def retry(self, params: Mapping[str, Any]) -> ChangePlan:
        """Quarantined records whose reason contains ``reason``, of the run ``load``; both are optional. Those
        that the topic has lost are read from the quarantine. Withheld ones only if ``reason`` says so: they
        would come beside the rows of the older version."""
        reason, load = params.get("reason") or "", params.get("load") or ""
        found = self._quarantined(reason, self._sources(load) if load else None)
        if not found:
            raise _refused(
                f"no record in {self.spec.quarantine_table} matches (reason {reason or 'any'!r}, load "
                f"{load or 'any'!r}; duplicates are not tried again, records with {WITHHELD!r} by that only, "
                "and rows that the producer rejected are on no topic)",
                "look at stage and reason there, and choose others; of stage 'producer' correct the file",
            )
        return self._made(Action.RETRY, rows_in=found, withheld=reason.startswith(WITHHELD))

    def revert(self, load: str) -> ChangePlan:
        """Every row that the run ``load`` sent, also of what it did not send to its end."""
        sources = self._sources(load, in_part=True)
        removed = self.removed().reverted_sources
        if again := {source["source_id"] for source in sources} & removed:
            raise _refused(
                f"load {load!r}: {len(again)} of its {len(sources)} sources are reverted already",
                "nothing is left to do; action redo brings them back",
            )
        ranges = OffsetRanges()
        in_part = tuple(sorted(source["source_id"] for source in sources if "ranges" not in source))
        for source in sources:
            if source["source_id"] in in_part:
                continue
            self._checked(plans.offsets_of(source))
            if plans.is_feed(source):
                ranges = ranges.union(plans.offsets_of(source))
        ids = tuple(sorted(s["source_id"] for s in sources))
        others = tuple(sorted(s["source_id"] for s in sources if not plans.is_feed(s)))
        return self._made(Action.REVERT, rows_out=ranges, sources_out=others, reverts=ids, closes=in_part)

    def redo(self, load: str, *, is_partial: bool) -> ChangePlan:
        """What a revert of the run ``load`` removed."""
        sources, before = self._sources(load), self.removed()
        ids = {source["source_id"] for source in sources}
        redone = {key: one for key, one in before.reverts.items() if ids & set(one.sources)}
        for key, one in redone.items():
            if others := set(one.sources) - ids:
                raise _refused(
                    f"load {load!r}: change {key} took its sources out with {len(others)} of other loads",
                    "load its files again, with load_changed_objects: they are new sources then",
                )
        if not redone:
            raise _refused(f"load {load!r} is not reverted", "only a reverted load can be redone")
        for source in sources:
            self._check_not_replaced(load, source, ids)
        ranges = OffsetRanges()
        for one in redone.values():
            ranges = ranges.union(one.offsets)
        there = self._readable(ranges.intersect(before.removed), is_partial=is_partial)
        return self._made(Action.REDO, rows_in=there, redoes=tuple(sorted(redone)), withheld=True)

    def remove(self, ranges: str) -> ChangePlan:
        """The records at these offsets, wherever they are: rows of the table and quarantined records."""
        asked = self._parsed(ranges)
        if asked.count > MAX_RECORDS:
            raise _refused(
                f"{asked.count} offsets: a change removes {MAX_RECORDS} at most, and names each of them",
                "name fewer; a whole load goes by action revert",
            )
        if not (left := asked.minus(self.removed().removed)):
            raise _refused(f"{asked} is removed already", "nothing is left to do; action redo brings it back")
        return self._made(Action.REMOVE, rows_out=left)

    def redo_records(self, params: Mapping[str, Any]) -> ChangePlan:
        """Of the offsets ``ranges`` those that action remove took out."""
        if params.get("load"):
            raise _refused(
                "give either load or ranges", "redo brings back a reverted load, or removed records"
            )
        removed = self.removed().single_offsets
        asked = self._parsed(str(params["ranges"])).intersect(removed)
        if not asked:
            raise _refused(
                f"no record in the range was taken out by action {Action.REMOVE}, which removed "
                f"{removed or 'none'}",
                "choose others; a reverted load comes back by its run id (load)",
            )
        there = self._readable(asked, is_partial=bool(params.get("partial")))
        # A withheld record returns to the quarantine: it would come beside the rows of the older version.
        return self._made(Action.REDO, rows_in=there)

    def replace(self, key: str) -> ChangePlan:
        """The rows of the object's earlier versions go, once its newest version is loaded and verified; its
        rows come, if they are withheld."""
        newest = self._source.head(key.removeprefix(f"s3://{self._source.name}/"))
        loaded = VerifiedSources(self.ledger, self.lake, self.spec.table)
        contents = ObjectContents(self.ledger, self._source, loaded)
        found = contents.look_up(newest)
        if found.known is Known.REVERTED or newest.source_id in loaded.reverted:
            raise _refused(
                f"{newest.uri}: a change took the rows of its newest version {newest.version_id} out",
                "bring them back with action redo, or load it again with load_changed_objects",
            )
        if found.source_id not in loaded.among([found.source_id])[0]:
            raise _refused(
                f"{newest.uri}: its newest version {newest.version_id} is not loaded and verified yet",
                f"trigger {self.spec.name}_load with objects={newest.key} and withhold, then this again",
            )
        withheld = self._one_per_row(found.source_id)
        old = tuple(sorted(other.source_id for other in found.others))
        if not old:
            raise _refused(
                f"{newest.uri}: no other content of it was loaded, or all of that is reverted",
                f"publish the {withheld.count} withheld records with action retry_quarantine and reason "
                f"{WITHHELD}"
                if withheld
                else "nothing is left to do",
            )
        if not withheld and not len(self._rows_of(found.source_id)):
            raise _refused(
                f"{newest.uri}: no row of its newest version {newest.version_id} is withheld or in "
                f"{self.spec.table}, so its older rows would go and none come",
                "look at the reasons in the quarantine, correct the file, and load it with withhold",
            )
        # A row of these may still come: from a producer that was believed dead, or as the stream is behind.
        return self._made(
            Action.REPLACE, sources_out=old, rows_in=withheld, reverts=old, closes=old, withheld=True
        )

    def removed(self) -> ChangeResult:
        """The document of the newest change after which offsets are removed; an empty one without."""
        from sluice.clients.s3.errors import removed_by

        return removed_by(self._s3, self.changes)

    def _made(self, action: Action, **parts: Any) -> ChangePlan:
        topic, changes = self.spec.topic.name, self.changes.count
        return ChangePlan(change_id(self.run_id), action, topic, **parts, changes=changes)

    @staticmethod
    def _required(params: Mapping[str, Any], name: str) -> str:
        value = params.get(name)
        if not value:
            raise _refused(f"{name} is empty", "give it: a run id is in the list of the DAG's runs")
        return str(value)

    def _ranges(self, params: Mapping[str, Any]) -> OffsetRanges:
        text, begin, end = (params.get(name) for name in ("ranges", "from_time", "until_time"))
        if bool(text) == bool(begin or end):
            raise _refused("give either ranges or a time span", "fill in one of both")
        if text:
            return self._parsed(str(text))
        if not (begin and end):
            raise _refused("a time span needs from_time and until_time", "give both")
        return self._between(str(begin), str(end))

    def _parsed(self, text: str) -> OffsetRanges:
        """Offsets as messages and proofs print them, of the stream's topic and published."""
        topic = self.spec.topic.name
        try:
            asked = TopicRanges.parse(text, topic)
        except RangesInvalid as error:
            raise Refused(str(error), error.code) from error
        if others := [name for name in asked if name != topic]:
            raise _refused(f"{others[0]!r} is not the topic of {self.spec.name}", f"name {topic!r}")
        return self._checked(asked[topic])

    def _between(self, begin: str, end: str) -> OffsetRanges:
        """From the first record with a timestamp at or after ``begin`` to the first at or after ``end``."""
        first, until = (_milliseconds(text) for text in (begin, end))
        if first >= until:
            raise _refused(f"the time span from {begin} until {end} ends before it begins", "swap them")
        ends = self.position.ends
        topic = self.spec.topic.name
        starts, stops = (self.kafka.first_after(topic, at, ends) for at in (first, until))
        for partition in starts:
            if stops[partition] < starts[partition]:
                raise _refused(
                    f"{topic} partition {partition}: the record at offset {stops[partition]} is dated "
                    f"{end} or later, and the first of {begin} or later is behind it: out of order",
                    "give ranges instead",
                )
        pairs = {p: [(starts[p], stops[p])] for p in starts}
        return OffsetRanges.of(pairs).intersect(self.published)

    def _checked(self, asked: OffsetRanges) -> OffsetRanges:
        if beyond := asked.minus(self.published):
            unknown = sorted(set(beyond.partitions) - set(self.position.ends))
            if unknown:
                raise _refused(
                    f"partition {unknown[0]} is none of {self.spec.table}: it has "
                    f"{min(self.position.ends)} to {max(self.position.ends)}",
                    "name others",
                )
            raise _refused(
                f"{self.spec.topic.name}: {beyond} is not published by the stream, which has "
                f"{self.published}",
                "choose offsets up to that, or wait until the stream has published them",
            )
        return asked

    def _readable(self, asked: OffsetRanges, *, is_partial: bool) -> OffsetRanges:
        """The records that the topic has, or the quarantine."""
        topic = self.spec.topic.name
        deleted = asked.minus(OffsetRanges.from_ends(self.kafka.begins(topic), self.kafka.ends(topic)))
        lost = deleted.minus(self._in_quarantine(deleted)) if deleted else deleted
        if lost and not is_partial:
            raise Refused(
                f"{topic}: retention has deleted {lost}, and {self.spec.quarantine_table} does not have "
                "them, so these records cannot be read again. Fix: set partial to leave them as they are, "
                "or load their source file again",
                ErrorCode.OFFSETS_NOT_THERE,
            )
        return asked.minus(lost)

    def _in_quarantine(self, asked: OffsetRanges) -> OffsetRanges:
        from pyiceberg.expressions import And, EqualTo

        from sluice.clients.lake import files

        table = self.lake.table(self.spec.quarantine_table)
        rows = And(EqualTo("stage", "consumer"), files.overlapping(asked.bounds()))
        return _ranges_of(files.read_offsets(table, files.committed_since(table, 0), rows)).intersect(asked)

    def _sources(self, load: str, *, in_part: bool = False) -> list[Document]:
        """The sources that this run sent, with ``ranges``; of a backfill's run, those of all its loads.
        ``in_part``: also those that it planned and did not send to their end, without ``ranges``."""
        keys = self.ledger.keys(load_ids_prefix(load))
        numbered = {name for key in keys if (name := load_of(key)) is not None}
        found, others = list[Document](), set[str]()
        for name in (load, *sorted(numbered)):
            plan = self.ledger.get(run_key(name, "plan"))
            sent = self.ledger.get(run_key(name, "produced"))
            if plan is None:
                continue
            if sent is None:
                found += self._unfinished(plan) if in_part else []
                continue
            for source in plan["sources"]:
                document = sent["sources"][source["source_id"]]
                if document["run_id"] == name:
                    found.append({**source, "ranges": document["ranges"]})
                else:
                    others.add(document["run_id"])
        if not found:
            by = f", its sources were sent by {', '.join(sorted(others))}" if others else ""
            raise _refused(
                f"load {load!r} is not known, or sent no record itself{by}",
                "give the run id of the load that sent them",
            )
        return found

    def _unfinished(self, plan: Document) -> list[Document]:
        return [
            source
            for source in plan["sources"]
            if source["run_id"] == plan["run_id"]
            and not plans.is_feed(source)
            and self.ledger.get(produced_key(source["source_id"])) is None
        ]

    def _rows_of(self, source_id: str) -> Any:
        """Its row numbers in the table, as a NumPy array."""
        from sluice.clients.lake import files

        table = self.lake.table(self.spec.table)
        return files.rows_by_source(table, files.committed_since(table, 0), [source_id])[source_id]

    def _check_not_replaced(self, load: str, source: Document, own: Collection[str]) -> None:
        """Raise Refused if other content of the source's object is in the table: both would be there.
        ``own``: ids of the load's sources."""
        from sluice.clients.s3.objects import ObjectVersion

        if plans.is_feed(source) or plans.is_generated(source):
            return
        loaded = VerifiedSources(self.ledger, self.lake, self.spec.table)
        version = ObjectVersion.of(source)
        for other in ObjectContents(self.ledger, self._source, loaded).look_up(version).others:
            if other.source_id not in own and len(self._rows_of(other.source_id)):
                raise _refused(
                    f"load {load!r}: another version of {version.uri}, {other.version_id}, is in "
                    f"{self.spec.table}, and the rows of both would be there",
                    "revert the load of that version first",
                )

    def _withheld(self) -> OffsetRanges:
        """The records that are withheld."""
        from pyiceberg.expressions import StartsWith

        from sluice.clients.lake import files

        table = self.lake.table(self.spec.quarantine_table)
        offsets = files.read_offsets(table, files.committed_since(table, 0), StartsWith("reason", WITHHELD))
        return _ranges_of(offsets)

    def _one_per_row(self, source_id: str) -> OffsetRanges:
        """Of each withheld row of a source that is not published one record: a producer that was believed
        dead may have sent copies."""
        import numpy as np
        from pyiceberg.expressions import And, EqualTo, StartsWith

        from sluice.clients.lake import files

        table, columns = (
            self.lake.table(self.spec.quarantine_table),
            (files.PARTITION, files.OFFSET, files.ROW),
        )
        chosen = And(StartsWith("reason", WITHHELD), EqualTo(files.SOURCE, source_id))
        found = files.read(table, chosen, columns).read_all()
        partitions, offsets, rows = (found[name].to_numpy().astype(np.int64) for name in columns)
        unpublished = np.flatnonzero(~np.isin(rows, self._rows_of(source_id)))
        _, where = np.unique(rows[unpublished], return_index=True)
        one = unpublished[where]
        return _ranges_of({int(p): offsets[one][partitions[one] == p] for p in np.unique(partitions[one])})

    def _quarantined(self, reason: str, sources: list[Document] | None) -> OffsetRanges:
        from pyiceberg.expressions import And, EqualTo, NotStartsWith, StartsWith

        from sluice.clients.lake import files

        of_reason = StartsWith if reason.startswith(WITHHELD) else NotStartsWith
        rows = And(
            EqualTo("stage", "consumer"), NotStartsWith("reason", DUPLICATE), of_reason("reason", WITHHELD)
        )
        wanted = None if sources is None else {source["source_id"] for source in sources}
        feeds = OffsetRanges()
        for source in sources or ():
            if plans.is_feed(source):
                feeds = feeds.union(plans.offsets_of(source))
        before = self.removed()
        reverted, removed = before.reverted_sources, before.removed
        offsets: dict[int, list[int]] = {}
        for row in files.quarantined(self.lake.table(self.spec.quarantine_table), rows):
            partition, offset = row[files.PARTITION], row[files.OFFSET]
            if reason not in row["reason"]:
                continue
            if row[files.SOURCE] in reverted or offset in removed[partition]:
                continue
            if wanted is None or row[files.SOURCE] in wanted or offset in feeds[partition]:
                offsets.setdefault(partition, []).append(offset)
        return _ranges_of(offsets)


def _ranges_of(offsets: Mapping[int, Iterable[int]]) -> OffsetRanges:
    return OffsetRanges({p: IntervalSet.of_values(values) for p, values in sorted(offsets.items())})


def _milliseconds(text: str) -> int:
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise _refused(f"{text!r} is no time", "write it as 2026-11-24T10:00:00Z") from error
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def _refused(message: str, fix: str) -> Refused:
    return Refused(f"{message}. Fix: {fix}", ErrorCode.INVALID_PARAMETER)
