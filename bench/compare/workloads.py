"""The workloads of a comparison: which contenders run what, in turns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench.compare.contenders import connect, growth, plain, supervision
from bench.compare.contenders.changes import ChangedSluice
from bench.compare.contenders.connect import Connect
from bench.compare.contenders.jobs import Plain, Sluice
from bench.compare.contenders.others import consume, fill
from bench.compare.contenders.watch import Contender, WatchedPlain, WatchedSluice, measure
from bench.compare.figures import CONNECT, NEW, PAUSED, PLAIN, SLUICE, TUNED, Figures, prefixed, report
from bench.compare.records import PARTITIONS, Declared, DeclaredOthers
from bench.compare.stack import BenchStack, bench_stack
from local.services.streams import spark_defaults
from tests.support.traffic import PER_SECOND

ROWS = 3_000_000
OBJECTS = 25
BATCHES, BATCH_ROWS = 150, 20_000
# Sluice at a trigger of 5 s instead of 1 s.
SLOW = f"{SLUICE}_5s"
# Measured time of a contender at scale 1, at least 20 s; kills of each contender in each turn.
LATENCY_SECONDS, KILLS = 120.0, 3
# Behind a stream that is new, and behind one that is not; sources of which a row was loaded.
FEW, HISTORY, SOURCES = 10, 5_000, 10_000
IDLE_STREAMS, INTERVALS = 20, 3
# The workload that needs Airflow, and idle consumers.
SUPERVISION = "supervision"


@dataclass(frozen=True)
class Size:
    """``scale``: of the rows; ``turns``: of each contender."""

    scale: float
    turns: int

    @property
    def rows(self) -> int:
        """A multiple of the objects' number."""
        return max(round(ROWS * self.scale / OBJECTS), 1) * OBJECTS

    @property
    def batch_rows(self) -> int:
        """A multiple of the partitions' number, so that each batch is full."""
        return max(round(BATCH_ROWS * self.scale / PARTITIONS), 1) * PARTITIONS

    @property
    def batches(self) -> int:
        """BATCHES, but in proportion below a tenth: a batch has a cost of its own, whatever its rows."""
        return max(round(BATCHES * min(10 * self.scale, 1.0)), 1)

    @property
    def history(self) -> int:
        """Batches behind a stream, more than FEW with what is measured there."""
        return max(self.of(HISTORY), 5 * FEW)

    def of(self, count: int) -> int:
        return max(round(count * self.scale), 1)


Found = defaultdict[str, list[Figures]]


def one_batch(bench: BenchStack, size: Size, names: list[str], objects: int = OBJECTS) -> dict[str, Any]:
    """Produce CSV objects, and consume the topic in one batch; verify Sluice's load."""
    found: Found = defaultdict(list)
    prefix = f"{names[0]}/"
    bench.put_objects(prefix, size.rows, objects)
    for name in names:
        sluice, contenders = Sluice(bench, name), plain_contenders(bench, name, size.rows)
        produced = {SLUICE: sluice.produce(prefix, size.rows)}
        produced |= {other: one.produce(prefix, size.rows) for other, one in contenders.items()}
        consumed = {SLUICE: sluice.consume(size.rows)}
        topic = sluice.spec.topic.name
        consumed |= {other: one.consume(topic, size.rows) for other, one in contenders.items()}
        for contender, figures in consumed.items():
            sent = {"produce": produced[contender]} if contender in produced else {}
            found[contender].append(prefixed(**sent, consume=figures))
        found[SLUICE][-1] |= prefixed(validate=proof_share(sluice.validate(), found[SLUICE][-1]))
        say(name, found)
    return report(found, {"rows": size.rows, "objects": objects, **settings(bench, 5)})


def proof_share(validated: Figures, load: Figures) -> Figures:
    """``cpu_share``: of the load's CPU seconds, those of the proof included."""
    cpu = validated["cpu_seconds"]
    return validated | {
        "cpu_share": round(cpu / (cpu + load["produce.cpu_seconds"] + load["consume.cpu_seconds"]), 4)
    }


def changes(bench: BenchStack, size: Size, names: list[str]) -> dict[str, Any]:
    """Load CSV objects; read the topic by ranges; revert half of the sources, redo them, replay all rows."""
    found: Found = defaultdict(list)
    bench.put_objects("changes/", size.rows, OBJECTS)
    for name in names:
        sluice = ChangedSluice(bench, name)
        produced = sluice.produce("changes/", size.rows)
        consumed, read = sluice.consume(size.rows), sluice.read()
        revert, redo, replay = sluice.revert(), sluice.redo(), sluice.replay()
        load_cpu = produced["cpu_seconds"] + consumed["cpu_seconds"]
        read["rate"] = round(read["rows_per_second"] / consumed["rows_per_second"], 3)
        for step in (revert, redo, replay):
            step["cpu_share"] = round(step["cpu_seconds"] / load_cpu, 3)
        steps = {"produce": produced, "consume": consumed, "read": read}
        found[SLUICE].append(prefixed(**steps, revert=revert, redo=redo, replay=replay))
        say(name, found)
    return report(found, {"rows": size.rows, "objects": OBJECTS, **settings(bench, 5)})


def small_batches(bench: BenchStack, size: Size, names: list[str]) -> dict[str, Any]:
    """Consume a topic in 150 batches, at a trigger of one second."""
    rows = size.batch_rows * size.batches
    found: Found = defaultdict(list)
    bench.put_objects("small/", rows, 1)
    producer = Sluice(bench, names[0])
    producer.produce("small/", rows)
    for name in names:
        found[SLUICE].append(Sluice(bench, name).consume(rows))
        for other, one in plain_contenders(bench, name, size.batch_rows).items():
            found[other].append(one.consume(producer.spec.topic.name, rows))
        say(name, found)
    return report(found, {"rows": rows, "batch_rows": size.batch_rows, **settings(bench, 1)})


def latency(bench: BenchStack, size: Size, names: list[str]) -> dict[str, Any]:
    """10 records a second: seconds from Kafka to queryable, and after kill -9 until records are queryable."""
    found: Found = defaultdict(list)
    seconds = max(LATENCY_SECONDS * size.scale, 20.0)
    for turn, (fast, slow) in enumerate(zip(names[::2], names[1::2], strict=True)):
        ours, theirs = Sluice(bench, fast), Plain(bench, f"latency-plain-{turn}", False, size.rows)
        contenders: dict[str, Contender] = {
            SLUICE: WatchedSluice(ours),
            SLOW: WatchedSluice(Sluice(bench, slow)),
            PLAIN: WatchedPlain(bench, theirs, ours.spec.topic.name),
        }
        for name, contender in contenders.items():
            found[name].append(measure(bench, contender, ours, seconds, KILLS))
        say(fast, found)
    more = {"seconds": seconds, "kills_per_turn": KILLS, "records_per_second": PER_SECOND}
    ran = {**more, **settings(bench, 1), SLOW: {"trigger_seconds": 5}}
    del ran[TUNED]
    return report(found, ran)


def json_records(bench: BenchStack, size: Size, names: list[str]) -> dict[str, Any]:
    """Consume JSON: Sluice and the Iceberg Kafka Connect sink."""
    found: Found = defaultdict(list)
    avro, *names = names
    source, contenders = Sluice(bench, avro), [Sluice(bench, name) for name in names]
    bench.put_objects("json/", size.rows, OBJECTS)
    source.produce("json/", size.rows)
    topic = contenders[0].spec.topic.name
    Plain(bench, "as-json", True, size.rows).as_json(source.spec.topic.name, topic, size.rows)
    for sluice in contenders:
        found[SLUICE].append(sluice.consume(size.rows))
        connector = Connect(bench, sluice.spec.name.replace("json", "connect"))
        found[CONNECT].append(connector.consume(topic, size.rows))
        say(sluice.spec.name, found)
    more = {"rows": size.rows, SLUICE: {"trigger_seconds": 5}, CONNECT: connect.settings()}
    return report(found, {"partitions": PARTITIONS, **more})


def others(bench: BenchStack, size: Size, names: list[str], is_json: bool) -> dict[str, Any]:
    """Consume a topic that others fill, into Iceberg; the rows of both must be equal."""
    found: Found = defaultdict(list)
    topic = fill(bench, f"shop.{names[0]}", size.rows, is_json)
    for turn, name in enumerate(names):
        for contender, figures in consume(bench, name, topic, size.rows, is_json, turn % 2 == 1).items():
            found[contender].append(figures)
        say(name, found)
    return report(found, {"rows": size.rows, "partitions": PARTITIONS})


def history(bench: BenchStack, size: Size, names: list[str]) -> dict[str, Any]:
    """Batches, failovers and verification of a stream with many batches behind it, and with ten."""
    found: Found = defaultdict(list)
    for name in names:
        stream = growth.GrowingSluice(bench, name)
        for contender, batches in ((NEW, FEW), (SLUICE, size.history)):
            stream.grow(batches)
            found[contender].append(stream.measure())
        recovered = stream.measure_with_sources(size.of(SOURCES))
        found[SLUICE][-1] |= prefixed(recovery_with_sources=recovered)
        say(name, found)
    behind = {SLUICE: {"batches": size.history, "sources": size.of(SOURCES)}, NEW: {"batches": FEW}}
    measured = {"measured_batches": growth.MEASURED, "records_per_batch": growth.RECORDS_PER_BATCH}
    return report(found, {"partitions": growth.PARTITIONS, **measured, **behind})


def supervised(bench: BenchStack, size: Size, names: list[str]) -> dict[str, Any]:
    """CPU seconds and S3 calls per interval of idle streams, supervised, and with their DAGs paused."""
    found: Found = defaultdict(list)
    idle = supervision.IdleStreams(bench, names)
    intervals, every = size.of(INTERVALS), supervision.INTERVAL_SECONDS
    for turn in range(size.turns):
        for contender, is_on in ((PAUSED, False), (SLUICE, True)):
            found[contender].append(idle.measure(is_on, intervals))
        more = found[SLUICE][-1]["cpu_seconds"] - found[PAUSED][-1]["cpu_seconds"]
        found[SLUICE][-1]["cpu_seconds_per_stream"] = round(more / len(names), 3)
        say(f"{SUPERVISION}_{turn}", found)
    return report(found, {"streams": len(names), "intervals": intervals, "interval_seconds": every})


Run = Callable[[BenchStack, Size, list[str]], dict[str, Any]]
WORKLOADS: Mapping[str, Run] = {
    "one_batch": one_batch,
    "one_object": partial(one_batch, objects=1),
    "changes": changes,
    "small_batches": small_batches,
    "latency": latency,
    "json": json_records,
    "others_avro": partial(others, is_json=False),
    "others_json": partial(others, is_json=True),
    "growth": history,
    SUPERVISION: supervised,
}


def declared(workload: str, size: Size) -> list[Declared]:
    """A workload's streams, in the order in which it takes them."""
    turns = range(size.turns)
    if workload == "small_batches":
        return [Declared(f"small_{n}", "bench-small", 1, size.batch_rows) for n in turns]
    if workload == "latency":
        return [Declared(f"latency_{n}_{s}s", "bench-latency", s) for n in turns for s in (1, 5)]
    if workload == "json":
        ours = [Declared(f"json_{n}", "bench-json", 5, size.rows, is_json=True) for n in turns]
        return [Declared("avro", "bench-avro"), *ours]
    if workload.startswith("others"):
        topic, is_json = f"shop.{workload}_0", workload == "others_json"
        return [DeclaredOthers(f"{workload}_{n}", topic, 5, size.rows, is_json=is_json) for n in turns]
    if workload == "growth":
        batch, partitions = growth.RECORDS_PER_BATCH, growth.PARTITIONS
        return [Declared(f"growth_{n}", f"bench-growth-{n}", 1, batch, partitions) for n in turns]
    if workload == SUPERVISION:
        idle = range(size.of(IDLE_STREAMS))
        return [Declared(f"idle_{n:03}", f"bench-idle-{n}", partitions=1) for n in idle]
    return [Declared(f"{workload}_{n}", topic_of(f"{workload}_{n}"), 5, size.rows) for n in turns]


def run(workloads: Sequence[str], size: Size) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each workload with its part of the result, on a new stack that is removed; SUPERVISION on its own."""
    for is_supervised in (False, True):
        chosen = [name for name in workloads if (name == SUPERVISION) is is_supervised]
        streams = {name: declared(name, size) for name in chosen}
        if not streams:
            continue
        with bench_stack([one for each in streams.values() for one in each], is_supervised) as bench:
            for name, each in streams.items():
                yield name, WORKLOADS[name](bench, size, [one.name for one in each])


def plain_contenders(bench: BenchStack, name: str, max_offsets: int) -> dict[str, Plain]:
    return {
        other: Plain(bench, f"{topic_of(name)}-{other.replace('_', '-')}", other == TUNED, max_offsets)
        for other in (PLAIN, TUNED)
    }


def topic_of(stream: str) -> str:
    return f"bench-{stream.replace('_', '-')}"


def settings(bench: BenchStack, trigger_seconds: int) -> dict[str, Any]:
    """What the contenders ran with."""
    ours = spark_defaults(bench.stack.context)
    memory = dict(line.split(" ", 1) for line in ours.splitlines())["spark.driver.memory"]
    return {
        "partitions": PARTITIONS,
        "spark": {"producers": "local[2]", "consumers": "local[*]", "spark.driver.memory": memory},
        SLUICE: {"trigger_seconds": trigger_seconds},
        PLAIN: {
            "trigger_seconds": plain.TRIGGER_SECONDS,
            "checkpoint": "s3a, default manager",
            "producer": "defaults",
        },
        TUNED: {
            "trigger_seconds": plain.TRIGGER_SECONDS,
            "checkpoint": "s3a, AbortableStreamBasedCheckpointFileManager",
            "producer": plain.PRODUCER,
            "consumer": plain.CONSUMER,
            "parquet": "zstd",
        },
    }


def say(title: str, found: Found) -> None:
    """Print the figures of the newest turn."""
    print(title, flush=True)
    for contender, turns in found.items():
        each = "  ".join(f"{name}={value:g}" for name, value in turns[-1].items())
        print(f"  {contender}: {each}", flush=True)
