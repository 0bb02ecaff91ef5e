"""A topic of Kafka, as it is declared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from sluice.config.reading.limits import BROKER_DEFAULT
from sluice.core.offsets.start import EARLIEST, Start

MAX_MESSAGE = "max.message.bytes"
# A broker's default of it.
MAX_MESSAGE_BYTES = 1_048_588
# Partitions of a topic of others: as many as it has.
UNDECLARED = 0
# By the broker's clock: a record's timestamp is its arrival, whatever its sender's clock says.
TIMESTAMP_TYPE, LOG_APPEND_TIME = "message.timestamp.type", "LogAppendTime"


@dataclass(frozen=True)
class Topic:
    name: Annotated[str, "one topic per stream; several streams may read one that is not `managed`"]
    partitions: Annotated[
        int,
        "also the target partitions of a load and the files of a batch; may grow, never shrink; none of a "
        "topic that is not `managed`, which has as many as it has",
    ] = UNDECLARED
    replication_factor: Annotated[
        int,
        "-1: the brokers' `default.replication.factor` at the topic's creation; another number must equal "
        "the topic's",
    ] = BROKER_DEFAULT
    config: Annotated[
        dict[str, str],
        "only declared keys are compared and set, and `message.timestamp.after.max.ms` (default here "
        "3600000, an hour) and `message.timestamp.before.max.ms` (3153600000000, 100 years): Kafka rejects "
        "records whose sender dates them further off, because Spark cannot read a timestamp in nanoseconds. "
        '`cleanup.policy` must be `delete`. A stream with windows needs `"message.timestamp.type" = '
        '"LogAppendTime"`',
    ] = field(default_factory=dict)
    managed: Annotated[
        bool,
        "false: the topic exists, others fill it, and nothing of it is created or changed: "
        "[topics of others](topics-of-others.md)",
    ] = True
    registry: Annotated[
        bool,
        "true: loads register the Avro schema as the subject `<topic>-value` in the platform files' "
        "[schema registry](your-own-systems.md#a-schema-registry), and send values in "
        "[Confluent's wire format](topics-of-others.md#sluices-own-topics-with-a-registry); only of a "
        "`managed` topic, of others it is `records.registry`",
    ] = False
    start: Annotated[
        str,
        "where the stream begins, of a topic that is not `managed`, resolved once: `earliest`, `latest`, a "
        "time with its zone (`2026-06-01T00:00:00Z`), an offset for each partition (`0=12 1=40`), or "
        "`group:<name>`, what that consumer group has committed",
    ] = EARLIEST

    @property
    def start_group(self) -> str:
        """The consumer group at whose position the stream begins; "" for another start."""
        return Start.parse(self.start).group

    @property
    def max_message_bytes(self) -> int:
        """The largest batch of records that it takes, as declared, or by a broker's default."""
        return int(self.config.get(MAX_MESSAGE, MAX_MESSAGE_BYTES))


# Progress of every stream's queries; provisioned by each load. The broker deletes whole segments only.
PROGRESS_TOPIC = Topic(
    "sluice-progress", 1, BROKER_DEFAULT, {"retention.ms": "604800000", "segment.ms": "86400000"}
)

# The position of each feed, which its producer commits with the events up to there; provisioned by the loads
# of feeds. Small segments: the broker compacts closed ones only, and a start reads back to the newest record.
POSITIONS_TOPIC = Topic(
    "sluice-feed-positions",
    1,
    BROKER_DEFAULT,
    {
        "cleanup.policy": "compact",
        "segment.bytes": "16777216",
        "segment.ms": "86400000",
        "min.cleanable.dirty.ratio": "0.1",
        "max.message.bytes": "8388608",
    },
)
