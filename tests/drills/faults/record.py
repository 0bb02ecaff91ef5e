"""Faults of records: malformed ones; only those of a producer with a format that the stream does not read."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from local.stack import lake
from tests.drills.detectors import detected_by_rejecting
from tests.drills.drill import Drill, DrillContext, Failed
from tests.support.traffic import Trips

PARTITION = 0
MALFORMED = [b"\xff\xfe a drill's malformed record", None]
RECORDS = 2_000
SCHEMA_ID = 7


def send_malformed_records(context: DrillContext) -> None:
    """Bytes that are not Avro, and a tombstone; the records after them must not wait for them."""
    context.record_injection()
    context.state["offsets"] = context.stream.send({PARTITION: MALFORMED})
    context.send_batch()


def quarantined(context: DrillContext) -> Iterator[tuple[tuple[int, int], str, datetime]]:
    """Partition and offset, reason and time of the quarantine's rows of the drill's records."""
    _, quarantine = lake.tables(context.stream.stack, context.stream.spec)
    for batch in lake.read(quarantine, (*lake.OFFSETS, "reason", "quarantined_at")):
        for row in batch.to_pylist():
            offset = (row["_kafka_partition"], row["_kafka_offset"])
            if offset in context.state["offsets"]:
                yield offset, row["reason"] or "", row["quarantined_at"]


def detected_by_quarantine(context: DrillContext) -> tuple[float, str] | None:
    """All records of the drill are in the quarantine, each with its reason."""
    found = {offset: (reason, at) for offset, reason, at in quarantined(context)}
    if set(found) != context.state["offsets"]:
        return None
    for offset, (reason, _) in found.items():
        if not reason:
            raise Failed(f"record {offset} is in the quarantine without a reason")
    context.say("; ".join(f"{offset}: {reason}" for offset, (reason, _) in sorted(found.items())))
    return max(at for _, at in found.values()).timestamp(), "quarantine"


def in_confluents_format(body: bytes) -> bytes:
    """As Confluent's serializers frame a body: a zero, and the schema's id at the registry."""
    return struct.pack(">bI", 0, SCHEMA_ID) + body


def send_in_another_format(context: DrillContext) -> None:
    """Valid trips in another framing, and nothing else: all that arrives is rejected."""
    trips = Trips(context.stream)
    context.traffic.pause()
    context.record_injection()
    context.state["offsets"] = context.stream.send_spread(
        [in_confluents_format(trips.body(number)) for number in range(RECORDS)]
    )


def send_good_records_again(context: DrillContext) -> None:
    context.traffic.resume()


def check_that_all_are_in_quarantine(context: DrillContext) -> None:
    """Each with its reason; what is elsewhere, or twice, the comparison of offsets names."""
    reasons = Counter(reason for _, reason, _ in quarantined(context))
    if reasons.total() != RECORDS or "" in reasons:
        raise Failed(f"{RECORDS} records were rejected; in quarantine, by their reason: {dict(reasons)}")
    context.say("; ".join(f"{count} in quarantine: {reason}" for reason, count in reasons.items()))


DRILLS = [
    Drill(
        "malformed_record",
        "A malformed record and a tombstone at the head of a partition",
        send_malformed_records,
        [detected_by_quarantine],
    ),
    Drill(
        "everything_rejected",
        "Another producer sends records in Confluent's format, and nothing else arrives",
        send_in_another_format,
        [detected_by_rejecting],
        repair=send_good_records_again,
        afterwards=check_that_all_are_in_quarantine,
    ),
]
