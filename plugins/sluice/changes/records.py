"""Changes of single records, named by offsets or reasons: replay, retry, remove, redo of removed ones, and
filling columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sluice.changes.loads import sent_sources
from sluice.changes.requested import parse_offsets, requested_offsets
from sluice.changes.stream import refused
from sluice.core.changes.plan import MAX_RECORDS, Action, ChangePlan
from sluice.core.offsets.quarantine import WITHHELD
from sluice.core.offsets.ranges import OffsetRanges
from sluice.loads import sources as kinds
from sluice.loads.sending.produced import offsets_of
from sluice.loads.sources.base import Counted

if TYPE_CHECKING:
    from sluice.changes.stream import PlannedStream


def replay(stream: PlannedStream, params: Mapping[str, Any]) -> ChangePlan:
    """The requested offsets, without what a change took out, and what is withheld."""
    asked = requested_offsets(stream, params)
    if removed := asked.intersect(stream.removed().removed):
        asked = asked.minus(removed)
    asked = asked.minus(stream.quarantine.withheld())
    there = stream.readable(asked, is_partial=bool(params.get("partial")))
    if not there:
        raise refused(
            "no record is in the range",
            "choose another; action redo brings a reverted load back, action replace withheld records",
        )
    return stream.planned(Action.REPLAY, rows_out=there, rows_in=there)


def retry(stream: PlannedStream, params: Mapping[str, Any]) -> ChangePlan:
    """Quarantined records whose reason contains ``reason``, of the run ``load``; both are optional. Those
    that the topic has lost are read from the quarantine. Withheld ones only if ``reason`` says so: they
    would come beside the rows of the older version."""
    reason, load = params.get("reason") or "", params.get("load") or ""
    sources = sent_sources(stream.ledger, load) if load else None
    ids = None if sources is None else {source["source_id"] for source in sources}
    feeds = OffsetRanges()
    for source in sources or ():
        if kinds.read(source).COUNTED is Counted.EVENTS:
            feeds = feeds.union(offsets_of(source))
    found = stream.quarantine.to_retry(reason, ids, feeds, stream.removed())
    if not found:
        raise refused(
            f"no record in {stream.spec.quarantine_table} matches (reason {reason or 'any'!r}, load "
            f"{load or 'any'!r}; duplicates are not tried again, records with {WITHHELD!r} by that only, "
            "and rows that the producer rejected are on no topic)",
            "look at stage and reason there, and choose others; of stage 'producer' correct the file",
        )
    return stream.planned(Action.RETRY, rows_in=found, withheld=reason.startswith(WITHHELD))


def remove(stream: PlannedStream, ranges: str) -> ChangePlan:
    """The records at these offsets, wherever they are: rows of the table and quarantined records."""
    asked = parse_offsets(stream, ranges)
    if asked.count > MAX_RECORDS:
        raise refused(
            f"{asked.count} offsets: a change removes {MAX_RECORDS} at most, and names each of them",
            "name fewer; a whole load goes by action revert",
        )
    if not (left := asked.minus(stream.removed().removed)):
        raise refused(f"{asked} is removed already", "nothing is left to do; action redo brings it back")
    return stream.planned(Action.REMOVE, rows_out=left)


def redo_records(stream: PlannedStream, params: Mapping[str, Any]) -> ChangePlan:
    """Plan to bring back those of the offsets ``ranges`` that action remove took out."""
    if params.get("load"):
        raise refused("give either load or ranges", "redo brings back a reverted load, or removed records")
    removed = stream.removed().single_offsets
    asked = parse_offsets(stream, str(params["ranges"])).intersect(removed)
    if not asked:
        raise refused(
            f"no record in the range was taken out by action {Action.REMOVE}, which removed "
            f"{removed or 'none'}",
            "choose others; a reverted load comes back by its run id (load)",
        )
    there = stream.readable(asked, is_partial=bool(params.get("partial")))
    # A withheld record returns to the quarantine: it would come beside the rows of the older version.
    return stream.planned(Action.REDO, rows_in=there)


def fill(stream: PlannedStream, params: Mapping[str, Any]) -> ChangePlan:
    """The rows at ``ranges`` (empty: all) with further fields, as far as the files' metadata tells. Reads no
    topic."""
    if params.get("from_time") or params.get("until_time"):
        raise refused(f"action {Action.FILL} reads no topic, and knows no times", "give ranges, or none")
    if (spec := stream.spec).records is None and spec.csv.extra_columns:
        # Neither would a replay: the load sent its records with the map.
        raise refused(
            f"action {Action.FILL} puts nothing into columns of what {spec.name} keeps in the map "
            f"{spec.csv.extra_columns!r}",
            f"revert the load of the files that had these columns (action {Action.REVERT}), and load them "
            "again with load_changed_objects, by which each of their columns is the table's",
        )
    text = str(params.get("ranges") or "")
    asked = parse_offsets(stream, text) if text else stream.published
    found = stream.with_further_fields(asked)
    return stream.planned(Action.FILL, rows_out=found, rows_in=found)
