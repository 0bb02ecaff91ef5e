"""A stream's position: what the newest ancestors of ``main`` with ``sluice.*`` in their summary record."""

from __future__ import annotations

from collections.abc import Sequence

from pyiceberg.table import Table

from sluice.clients.lake.commits import Commit, ancestors, commits, summary_of
from sluice.core.changes.published import changes_in
from sluice.core.offsets.quarantine import NO_REJECTIONS, Rejections, held_in, rejected_by
from sluice.core.offsets.rejection import BATCHES, counters_of
from sluice.core.tables.position import Position
from sluice.core.tables.summary import MALFORMED, NEWEST_MALFORMED, REJECTED, StreamPart

# Snapshots of a stream that are read for its newest batches: failovers and changes come between.
MAX_READ = 10 * BATCHES


def position(table: Table, quarantine: Table | None = None) -> Position | None:
    """The position that the newest ``sluice.*`` snapshot of ``main`` records; None if there is none.
    ``quarantine``: the stream's, loaded after ``table``."""
    return position_of(newest_commits(table), quarantine)


def has_records(table: Table) -> bool:
    """Whether the stream has published a record. A table without a stream's snapshots has some."""
    newest = next((commit for commit in commits(table) if commit.is_of_stream), None)
    if newest is None:
        return True
    starts = StreamPart.of(newest.summary).starts
    return any(end > starts.get(partition, 0) for partition, end in newest.ends.items())


def newest_commits(table: Table) -> list[Commit]:
    """The newest snapshots of the stream, newest first: down to the BATCHES-th batch, and no more than
    MAX_READ; further back only for a batch at all."""
    found, batches = list[Commit](), 0
    for commit in commits(table):
        if not commit.is_of_stream:
            continue
        found.append(commit)
        batches += commit.kind == "batch"
        if batches and (batches >= BATCHES or len(found) >= MAX_READ):
            break
    return found


def at_and_summary(newest: Sequence[Commit]) -> list[tuple[float, dict[str, str]]]:
    return [(commit.at, commit.summary) for commit in newest]


def position_of(newest: Sequence[Commit], quarantine: Table | None = None) -> Position | None:
    """The position after the ``newest`` snapshots of a stream, newest first. ``quarantine``: the stream's,
    read after them."""
    if not newest:
        return None
    head, batches = newest[0], [commit for commit in newest if commit.kind == "batch"]
    part = StreamPart.of(head.summary)
    malformed, newest_malformed = _malformed(newest, batches, quarantine)
    return Position(
        epoch=head.epoch,
        at=head.at,
        acquired_at=head.acquired_at,
        starts=dict(part.starts),
        ends=head.ends,
        topic_id=part.topic_id or None,
        longest_batch=max(
            (one.seconds for one in batches[:BATCHES] if one.seconds is not None), default=None
        ),
        batch_at=batches[0].at if batches else None,
        rejected=rejected_by(head.summary).count,
        malformed=malformed,
        changes=changes_in(head.summary).count,
        counters=counters_of(at_and_summary(newest), malformed),
        newest_malformed=newest_malformed,
    )


def _malformed(
    newest: Sequence[Commit], batches: Sequence[Commit], quarantine: Table | None
) -> tuple[int, str]:
    """Number of the malformed records that the stream's batches rejected; place and reason of the newest.

    A batch's summary has the number before it, a writer's first snapshot one that may be older. So of the
    newest batch the quarantine says it, once it holds what that rejected; until then its own are not counted.
    """
    number = int(batches[0].summary.get(MALFORMED, 0)) if batches else 0
    if quarantine is None:
        return number, ""
    held, text = _held(quarantine)
    # A change's part in the quarantine follows after it.
    is_settled = held in [rejected_by(one.summary) for one in (newest[0], *batches[:1])]
    return (held.malformed if is_settled else number), text


def _held(quarantine: Table) -> tuple[Rejections, str]:
    """What it holds of the stream's batches; place and reason of the newest malformed record, if that is
    among its newest MAX_READ snapshots."""
    held: Rejections | None = None
    for number, snapshot in enumerate(ancestors(quarantine)):
        summary = summary_of(snapshot)
        if held is None and REJECTED in summary:
            held = held_in([summary])
        if text := summary.get(NEWEST_MALFORMED):
            return held or NO_REJECTIONS, text
        if held is not None and number >= MAX_READ:
            break
    return held or NO_REJECTIONS, ""
