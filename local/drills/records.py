"""Records that are none, at the head of a partition."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from local import evidence
from local.drills.drill import Drill, Failed, Scene

PARTITION = 0


def send_poison(scene: Scene) -> None:
    """Bytes that are no Avro, and a tombstone; what comes behind them must not wait for them."""
    places: list[tuple[int, int]] = []

    def noted(error: object, message: Any) -> None:
        if error is not None:
            raise Failed(f"Kafka did not take the poison: {error}")
        places.append((message.partition(), message.offset()))

    scene.mark()
    producer = scene.site.producer()
    for value in (b"\xff\xfe a drill's poison", None):
        producer.produce(scene.site.spec.topic.name, value, partition=PARTITION, on_delivery=noted)
    producer.flush(30)
    if len(places) != 2:
        raise Failed("Kafka did not take the poison within 30 s")
    scene.kept["places"] = places
    scene.feed()


def by_quarantine(scene: Scene) -> tuple[float, str] | None:
    """Both are in the quarantine, each with its reason."""
    _, quarantine = evidence.tables(scene.site.stack, scene.site.spec)
    columns = ("_kafka_partition", "_kafka_offset", "reason", "quarantined_at")
    found: dict[tuple[int, int], tuple[str, float]] = {}
    for batch in evidence.scan(quarantine, columns):
        times = batch.column("quarantined_at").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
        for row, at in zip(batch.select(columns[:3]).to_pylist(), times, strict=True):
            place = (row["_kafka_partition"], row["_kafka_offset"])
            if place in scene.kept["places"]:
                found[place] = (row["reason"] or "", at / 1e6)
    if set(found) != set(scene.kept["places"]):
        return None
    for place, (reason, _) in found.items():
        if not reason:
            raise Failed(f"record {place} is in the quarantine without a reason")
    scene.say("; ".join(f"{place}: {reason}" for place, (reason, _) in sorted(found.items())))
    return max(at for _, at in found.values()), "quarantine"


DRILLS = [
    Drill(
        "poison_record",
        "a record that is no Avro, and a tombstone, at the head of a partition",
        send_poison,
        [by_quarantine],
    ),
]
