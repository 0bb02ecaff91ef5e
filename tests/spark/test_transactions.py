"""A topic of other programs' transactions: published, validated, reconciled and replayed, each without the
offsets that have no record."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from sluice.changes import stream as changed_stream
from sluice.changes.plan import plan_action
from sluice.changes.stream import PlannedStream
from sluice.clients.kafka.reader import delivered_among
from sluice.core.offsets.offset_set import OffsetSet
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.tables import without_record
from sluice.ledger.documents import Ledger
from sluice.loads.verification.checks import LoadFiles, OffsetCheck, check_offsets
from sluice.loads.verification.without_record import of_gaps
from sluice.maintenance.reconciliation.table_contents import TableContents
from spark_jobs.common.maintenance.change import Change
from tests.support.lakehouse import Stream, accepting
from tests.support.task_systems import task_systems

# Each transaction has three records and a marker; then there are two records without one.
SENT = OffsetRanges.of({0: [(0, 14)], 1: [(0, 2)]})
MARKERS, ABORTED = OffsetRanges.of({0: [(3, 4), (7, 8), (11, 12)]}), OffsetRanges.of({0: [(4, 7)]})
RECORDS = SENT.minus(MARKERS).minus(ABORTED)


@pytest.fixture
def systems(stream: Stream) -> Iterator[Any]:
    """A task's, with the consumer's rights."""
    with task_systems(stream.platform) as found:
        yield found


def validated(stream: Stream, systems: Any, offsets: OffsetRanges) -> OffsetCheck:
    load = LoadFiles.at(systems.lake, stream.spec, offsets)
    return check_offsets(load, partial(of_gaps, systems, stream.spec))


def assert_reconciled(stream: Stream, systems: Any) -> None:
    spec, ledger = stream.spec, Ledger(systems.s3, stream.platform.lake.ledger, stream.spec.name)
    contents = TableContents(systems.lake, spec.table, spec.quarantine_table, ledger, systems.batch_log)
    findings, verified = contents.verify(None, None)
    assert findings == []
    assert verified is not None
    assert verified.present == OffsetSet.of(RECORDS)
    assert verified.without_record == OffsetSet.of(MARKERS.union(ABORTED))


@pytest.mark.parametrize("characters", [4096, 9], ids=["in the summary", "in a document"])
def test_offsets_without_a_record_are_no_gaps(
    stream: Stream, systems: Any, characters: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(without_record, "MAX_CHARACTERS", characters)
    stream.send_transactions()
    stream.run(stream.writer()).stop()
    assert delivered_among(stream.platform.kafka, stream.spec.topic.name, SENT) == RECORDS
    found = validated(stream, systems, SENT)
    assert (found.verification.is_ok, found.verification.expected) == (True, RECORDS.count)
    assert (found.without.recorded.control, found.without.recorded.aborted) == (MARKERS, ABORTED)
    assert (found.without.records.count, found.without.deleted.count) == (0, 0)
    (summary, *_) = (said for said in stream.summaries() if said["kind"] == "batch")
    assert ("/without-record/" in summary["without-record"]) == (characters == 9)
    assert_reconciled(stream, systems)

    ledger = Ledger(systems.s3, stream.platform.lake.ledger, stream.spec.name)
    # Its files, of which it has none.
    monkeypatch.setattr(changed_stream, "reading_of", lambda _: None)
    planned = PlannedStream(systems, stream.spec, ledger, "run")
    plan = plan_action(planned, {"action": "replay", "ranges": str(SENT)})
    assert (plan.rows_out, plan.rows_in) == (RECORDS, RECORDS)
    Change(stream.spark, stream.platform, stream.spec, lambda _: accepting, plan).run()
    assert validated(stream, systems, SENT).verification.is_ok
    assert_reconciled(stream, systems)
