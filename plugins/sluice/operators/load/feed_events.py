"""What a feed gave during a load, against what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluice.model.spec.config import ConfigError
from sluice.model.verification.events import EventProof

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from sluice.model.spec.stream import StreamSpec
    from sluice.model.verification.ranges import RangeSet


def check_feed_events(spec: StreamSpec, table: Table, expected: RangeSet, quarantined: RangeSet) -> EventProof:
    """Whether the offsets of ``expected`` are as many as rows of the table with one of them and offsets in
    quarantine together, and each of these rows' event ids is in the table once. A feed cannot be asked again,
    so the topic's offsets stand for what it gave. Raises ConfigError where the stream declares no feed."""
    from sluice.clients.lake import files
    from sluice.clients.lake.event_ids import census

    if spec.feed is None:
        raise ConfigError(f"stream {spec.name!r} declares no [feed], and its load's plan is of one")
    found = census(table, files.overlapping(expected), spec.feed.event_id, spec.partition_by)
    return EventProof(
        source_rows=expected.count,
        published=found.rows,
        quarantined=quarantined.intersect(expected).count,
        nameless=found.nameless,
        twice=found.twice,
    )
