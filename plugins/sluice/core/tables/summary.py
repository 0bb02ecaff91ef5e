"""The properties of a snapshot's summary that are Sluice's, and the part of it that is the stream's state.

Written by the stream's writer in each of its snapshots of the table, carried on by a change on top of them,
unless a comment says otherwise; docs/stored-data.md describes them for others. No other file has the names.
All values are texts; offsets and sequence numbers are in JSON, times in ms since 1970.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sluice.core.offsets.ranges import offsets_from_json

# Snapshots of maintenance and of other programs have none.
PREFIX = "sluice."
# What the snapshot is: epoch-start, batch, change; of the quarantine init, producer. Every writer.
KIND = "sluice.kind"
# Name of the stream; of its topic. STREAM: also the writer of queries, and the sink's.
STREAM, TOPIC = "sluice.stream", "sluice.topic"
# Kafka's id of the topic: another one was recreated.
TOPIC_ID = "sluice.topic-id"
# Number of the writer's lease; name of its branch. Each writer with a lease, WRITER: also the quarantine's.
EPOCH, WRITER = "sluice.epoch", "sluice.writer"
# When the writer acquired the lease.
ACQUIRED_AT = "sluice.acquired-at"
# What a batch read: partition -> [from, until].
OFFSET_RANGES = "sluice.offset-ranges"
# A batch's alone: control, aborted, absent -> offsets without a record; the evidence of absent ones; or the
# address of the document that has them. If any.
WITHOUT_RECORD = "sluice.without-record"
# partition -> the leader epoch of the newest record, as far as known: a log that was truncated has another.
LEADER_EPOCHS = "sluice.leader-epochs"
# partition -> where the stream began; partition -> up to which offset all is published, this one included.
START_OFFSETS, END_OFFSETS = "sluice.start-offsets", "sluice.end-offsets"
# Number of the batch in its writer's streaming query; when it began. Batches', BATCH_ID: also the sink's.
BATCH_ID, STARTED_AT = "sluice.batch-id", "sluice.started-at"
# source -> ranges of its rows, of the newest batch before this one.
LOADED_ROWS = "sluice.loaded-rows"
# Number of batches whose rows are recorded outside of summaries; of those after them.
RECORDED_BATCHES, UNRECORDED_BATCHES = "sluice.recorded-batches", "sluice.unrecorded-batches"
# Number of changes; ids of the newest, oldest first, with commas; how many of them moved rows of the table.
CHANGES, NEWEST_CHANGES, ROW_CHANGES = "sluice.changes", "sluice.newest-changes", "sluice.row-changes"
# Address of the result that lists the removed offsets; "" without any.
REMOVED_OFFSETS = "sluice.removed-offsets"
# A change's snapshots: its id. Only its last, which has the stream's state: address of its result, and the
# ranges with which its loaded rows count.
CHANGE_ID, CHANGE_DOCUMENT = "sluice.change-id", "sluice.change-document"
CHANGE_OFFSETS = "sluice.change-offsets"
# In both tables: number of records that batches rejected; the newest batch that rejected any, <writer>/<id>;
# number of the malformed ones.
REJECTED, REJECTED_BY, MALFORMED = "sluice.rejected", "sluice.rejected-by", "sluice.malformed"
# In a change's alone, of the stream's table: batch -> how many of its malformed records it took out of the
# quarantine, of the newest batches before it.
MALFORMED_OUT = "sluice.malformed-out"
# In the quarantine's alone: place and reason of a batch's newest malformed record, if it has any.
NEWEST_MALFORMED = "sluice.newest-malformed"
# In the table of queries: query -> its state. In a sink's table: the query of its rows.
QUERIES, QUERY = "sluice.queries", "sluice.query"
# Keys of the writer: a change on top of its snapshot is none of another writer.
OF_WRITER = (STREAM, TOPIC, EPOCH, WRITER, ACQUIRED_AT)


def of_stream(summaries: Iterable[Mapping[str, str]]) -> Mapping[str, str]:
    """The first of the summaries that has the stream's state; an empty one without any."""
    return next((summary for summary in summaries if END_OFFSETS in summary), {})


@dataclass(frozen=True)
class StreamPart:
    """The stream's state in a summary, but rejections and changes, which have properties of their own.

    ``topic_id``: Kafka's, None if the summary has none; offsets ``[starts, ends)`` are published, by
    partition. ``loaded_rows``: JSON of a LoadedRows, of the newest batch before the summary's. ``recorded``:
    number of batches whose rows the store has; ``unrecorded``: of those after them.
    """

    topic_id: str | None
    starts: Mapping[int, int]
    ends: Mapping[int, int]
    loaded_rows: str = "{}"
    recorded: int = 0
    unrecorded: int = 0

    def properties(self) -> dict[str, str]:
        return {
            TOPIC_ID: str(self.topic_id),
            START_OFFSETS: json.dumps(dict(sorted(self.starts.items()))),
            END_OFFSETS: json.dumps(dict(sorted(self.ends.items()))),
            LOADED_ROWS: self.loaded_rows,
            RECORDED_BATCHES: str(self.recorded),
            UNRECORDED_BATCHES: str(self.unrecorded),
        }

    @classmethod
    def of(cls, summary: Mapping[str, str]) -> StreamPart:
        """What ``properties`` wrote."""
        return cls(
            topic_id=summary.get(TOPIC_ID),
            starts=offsets_from_json(summary[START_OFFSETS]),
            ends=offsets_from_json(summary[END_OFFSETS]),
            loaded_rows=summary.get(LOADED_ROWS, "{}"),
            recorded=int(summary.get(RECORDED_BATCHES, 0)),
            unrecorded=int(summary.get(UNRECORDED_BATCHES, 0)),
        )
