"""Changes of whole loads and objects: revert a load, redo a reverted one, replace an object's older rows."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from sluice.changes.stream import refused
from sluice.core.changes.plan import Action, ChangePlan
from sluice.core.json_record import Document
from sluice.core.offsets.quarantine import WITHHELD
from sluice.core.offsets.ranges import OffsetRanges
from sluice.ledger.keys import load_ids_prefix, load_of, produced_key, run_key
from sluice.loads import sources as kinds
from sluice.loads.known.contents import Known
from sluice.loads.known.index import ObjectContents
from sluice.loads.known.verified import VerifiedSources
from sluice.loads.sending.produced import offsets_of
from sluice.loads.sources.base import Counted
from sluice.loads.sources.csv_object import ObjectSource

if TYPE_CHECKING:
    from sluice.changes.stream import PlannedStream
    from sluice.ledger.documents import Ledger


def sent_sources(ledger: Ledger, load: str, *, in_part: bool = False) -> list[Document]:
    """The sources that this run sent, with ``ranges``; of a backfill's run, those of all its loads.
    ``in_part``: also those that it planned and did not send to their end, without ``ranges``."""
    keys = ledger.keys(load_ids_prefix(load))
    numbered = {name for key in keys if (name := load_of(key)) is not None}
    found, others = list[Document](), set[str]()
    for name in (load, *sorted(numbered)):
        plan = ledger.get(run_key(name, "plan"))
        sent = ledger.get(run_key(name, "produced"))
        if plan is None:
            continue
        if sent is None:
            found += _unfinished(ledger, plan) if in_part else []
            continue
        for source in plan["sources"]:
            document = sent["sources"][source["source_id"]]
            if document["run_id"] == name:
                found.append({**source, "ranges": document["ranges"]})
            else:
                others.add(document["run_id"])
    if not found:
        by = f", its sources were sent by {', '.join(sorted(others))}" if others else ""
        raise refused(
            f"load {load!r} is not known, or sent no record itself{by}",
            "give the run id of the load that sent them",
        )
    return found


def _unfinished(ledger: Ledger, plan: Document) -> list[Document]:
    return [
        source
        for source in plan["sources"]
        if source["run_id"] == plan["run_id"]
        and kinds.read(source).COUNTED is Counted.ROWS
        and ledger.get(produced_key(source["source_id"])) is None
    ]


def revert(stream: PlannedStream, load: str) -> ChangePlan:
    """Every row that the run ``load`` sent, also of what it did not send to its end."""
    sources = sent_sources(stream.ledger, load, in_part=True)
    removed = stream.removed().reverted_sources
    if again := {source["source_id"] for source in sources} & removed:
        raise refused(
            f"load {load!r}: {len(again)} of its {len(sources)} sources are reverted already",
            "nothing is left to do; action redo brings them back",
        )
    ranges = OffsetRanges()
    in_part = tuple(sorted(source["source_id"] for source in sources if "ranges" not in source))
    for source in sources:
        if source["source_id"] in in_part:
            continue
        stream.check_published(offsets_of(source))
        if kinds.read(source).COUNTED is Counted.EVENTS:
            ranges = ranges.union(offsets_of(source))
    ids = tuple(sorted(s["source_id"] for s in sources))
    others = tuple(sorted(s["source_id"] for s in sources if kinds.read(s).COUNTED is Counted.ROWS))
    return stream.planned(Action.REVERT, rows_out=ranges, sources_out=others, reverts=ids, closes=in_part)


def redo(stream: PlannedStream, load: str, *, is_partial: bool) -> ChangePlan:
    """What a revert of the run ``load`` removed."""
    sources, before = sent_sources(stream.ledger, load), stream.removed()
    ids = {source["source_id"] for source in sources}
    redone = {key: one for key, one in before.reverts.items() if ids & set(one.sources)}
    for key, one in redone.items():
        if others := set(one.sources) - ids:
            raise refused(
                f"load {load!r}: change {key} took its sources out with {len(others)} of other loads",
                "load its files again, with load_changed_objects: they are new sources then",
            )
    if not redone:
        raise refused(f"load {load!r} is not reverted", "only a reverted load can be redone")
    for source in sources:
        _check_not_replaced(stream, load, source, ids)
    ranges = OffsetRanges()
    for one in redone.values():
        ranges = ranges.union(one.offsets)
    there = stream.readable(ranges.intersect(before.removed), is_partial=is_partial)
    return stream.planned(Action.REDO, rows_in=there, redoes=tuple(sorted(redone)), withheld=True)


def _check_not_replaced(stream: PlannedStream, load: str, source: Document, own: Collection[str]) -> None:
    """Raise Refused if other content of the source's object is in the table: both would be there.
    ``own``: ids of the load's sources."""
    found = kinds.read(source)
    if not isinstance(found, ObjectSource):
        return
    loaded, version = VerifiedSources(stream.ledger, stream.lake, stream.spec.table), found.version
    for other in ObjectContents(stream.ledger, stream.source, loaded).look_up(version).others:
        if other.source_id not in own and stream.rows_of(other.source_id):
            raise refused(
                f"load {load!r}: another version of {version.uri}, {other.version_id}, is in "
                f"{stream.spec.table}, and the rows of both would be there",
                "revert the load of that version first",
            )


def replace(stream: PlannedStream, key: str) -> ChangePlan:
    """The rows of the object's earlier versions go, once its newest version is loaded and verified; its
    rows come, if they are withheld."""
    newest = stream.source.head(key.removeprefix(f"s3://{stream.source.name}/"))
    loaded = VerifiedSources(stream.ledger, stream.lake, stream.spec.table)
    contents = ObjectContents(stream.ledger, stream.source, loaded)
    found = contents.look_up(newest)
    if found.known is Known.REVERTED or newest.source_id in loaded.reverted:
        raise refused(
            f"{newest.uri}: a change took the rows of its newest version {newest.version_id} out",
            "bring them back with action redo, or load it again with load_changed_objects",
        )
    if found.source_id not in loaded.among([found.source_id])[0]:
        raise refused(
            f"{newest.uri}: its newest version {newest.version_id} is not loaded and verified yet",
            f"trigger {stream.spec.name}_load with objects={newest.key} and withhold, then this again",
        )
    published = stream.rows_of(found.source_id)
    withheld = stream.quarantine.one_per_row(found.source_id, published)
    old = tuple(sorted(other.source_id for other in found.others))
    if not old:
        raise refused(
            f"{newest.uri}: no other content of it was loaded, or all of that is reverted",
            f"publish the {withheld.count} withheld records with action retry_quarantine and reason "
            f"{WITHHELD}"
            if withheld
            else "nothing is left to do",
        )
    if not withheld and not len(published):
        raise refused(
            f"{newest.uri}: no row of its newest version {newest.version_id} is withheld or in "
            f"{stream.spec.table}, so its older rows would go and none come",
            "look at the reasons in the quarantine, correct the file, and load it with withhold",
        )
    # A row of these may still come: from a producer that was believed dead, or as the stream is behind.
    return stream.planned(
        Action.REPLACE, sources_out=old, rows_in=withheld, reverts=old, closes=old, withheld=True
    )
