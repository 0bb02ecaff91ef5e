"""Faults of records: another producer writes to the topic in a format that the stream does not read."""

from __future__ import annotations

import struct
from typing import Any

from local.drills.drill import Drill, DrillContext, Failed, detected_by_rejecting
from local.drills.traffic import Trips
from local.stack import lake

RECORDS = 2_000
SCHEMA_ID = 7
SEND_SECONDS = 60.0


def in_confluents_format(body: bytes) -> bytes:
    """As Confluent's serializers frame a body: a zero, and the schema's id at the registry."""
    return struct.pack(">bI", 0, SCHEMA_ID) + body


def send_in_another_format(context: DrillContext) -> None:
    """Good trips in another framing, and nothing else: all that arrives is rejected."""
    stream, offsets, errors = context.stream, set[tuple[int, int]](), list[str]()

    def delivered(error: object, message: Any) -> None:
        if error is not None:
            errors.append(str(error))
        else:
            offsets.add((message.partition(), message.offset()))

    trips, producer = Trips(stream), stream.producer()
    context.traffic.pause()
    context.record_injection()
    for number in range(RECORDS):
        body, partition = in_confluents_format(trips.body(number)), number % stream.spec.topic.partitions
        producer.produce(stream.spec.topic.name, body, partition=partition, on_delivery=delivered)
        producer.poll(0)
    producer.flush(SEND_SECONDS)
    if len(offsets) != RECORDS:
        reason = errors[0] if errors else f"{len(offsets)} within {SEND_SECONDS:.0f} s"
        raise Failed(f"Kafka did not take {RECORDS} records of another producer: {reason}")
    context.state["foreign"] = offsets


def send_good_records_again(context: DrillContext) -> None:
    context.traffic.resume()


def check_that_all_are_in_quarantine(context: DrillContext) -> None:
    """Each with its reason; what is elsewhere, or twice, the comparison of offsets names."""
    _, quarantine = lake.tables(context.stream.stack, context.stream.spec)
    foreign, reasons = context.state["foreign"], dict[str, int]()
    for batch in lake.read(quarantine, (*lake.OFFSETS, "reason")):
        for row in batch.to_pylist():
            if (row["_kafka_partition"], row["_kafka_offset"]) in foreign:
                reasons[row["reason"] or ""] = reasons.get(row["reason"] or "", 0) + 1
    if sum(reasons.values()) != RECORDS or "" in reasons:
        raise Failed(f"{RECORDS} records were rejected; in quarantine, by their reason: {reasons}")
    context.say("; ".join(f"{count} in quarantine: {reason}" for reason, count in reasons.items()))


DRILLS = [
    Drill(
        "everything_rejected",
        f"another producer sends {RECORDS} records in Confluent's format, and nothing else arrives",
        send_in_another_format,
        [detected_by_rejecting],
        repair=send_good_records_again,
        afterwards=check_that_all_are_in_quarantine,
    ),
]
