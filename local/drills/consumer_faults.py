"""Faults of the consumer: killed, hung, a zombie, without its checkpoint, records that are none."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

from local.drills.drill import (
    Drill,
    DrillContext,
    Failed,
    detected_by_health,
    detected_by_restartable_health,
    detected_by_runtime,
)
from local.drills.stream import StreamUnderTest
from local.runtime.processes import stack_processes
from local.stack import lake
from sluice.model import exits

# Some tenths of a second lie between append and publish, so the moment may be missed.
TRIES = 12


def family(pid: int) -> list[psutil.Process]:
    """A process and all below it: the Python parent and its JVM. Empty when it is gone."""
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def signal_all(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        # By psutil's check of the start time: the id may be another process's by now.
        if process.is_running():
            try:
                os.kill(process.pid, number)
            except ProcessLookupError:
                continue  # it ended with its parent, which the signal was for too


def service_family(site: StreamUnderTest, program: str) -> list[psutil.Process]:
    """The processes of one of supervisord's programs; of a component without the parent process."""
    pid = site.status(program).pid
    return family(pid) if pid is not None else []


def suspend_between_append_and_publish(
    site: StreamUnderTest, processes: Callable[[], list[psutil.Process]], feed: Callable[[], None]
) -> list[psutil.Process]:
    """Suspends the consumer when its batch is appended and not yet published; gives its processes.

    `feed` makes sure that there is a batch to come. Where the moment is missed, the consumer goes on and it
    is tried again. Raises TimeoutError after TRIES.
    """
    for _ in range(TRIES):
        before = site.metadata_location()
        feed()
        caught = processes()
        site.wait_for_commit(before)
        signal_all(caught, signal.SIGSTOP)
        if site.holds_an_unpublished_batch():
            return caught
        signal_all(caught, signal.SIGCONT)
    raise TimeoutError(f"missed the moment between append and publish {TRIES} times")


def wake_all(site: StreamUnderTest) -> list[psutil.Process]:
    """Lets every suspended process of the stack go on; gives them."""
    asleep = [p for p in stack_processes(site.stack.home.id) if _status(p) == psutil.STATUS_STOPPED]
    signal_all(asleep, signal.SIGCONT)
    return asleep


def _status(process: psutil.Process) -> str:
    try:
        return str(process.status())
    except psutil.NoSuchProcess:
        return ""


def strangers(site: StreamUnderTest) -> list[psutil.Process]:
    """Consumers of the stream that run outside supervisord: the process itself, without what is below it."""
    ours = {process.pid for process in family(int(site.process()["pid"]))}
    found: list[psutil.Process] = []
    for process in stack_processes(site.stack.home.id):
        try:
            words = process.cmdline()
        except psutil.NoSuchProcess:
            continue
        if process.pid not in ours and words[1:] == [*site.spec.component("consumer").arguments]:
            found.append(process)
    return found


PARTITION = 0


def send_poison(context: DrillContext) -> None:
    """Bytes that are no Avro, and a tombstone; what comes behind them must not wait for them."""
    places: list[tuple[int, int]] = []

    def noted(error: object, message: Any) -> None:
        if error is not None:
            raise Failed(f"Kafka did not take the poison: {error}")
        places.append((message.partition(), message.offset()))

    context.mark()
    producer = context.site.producer()
    for value in (b"\xff\xfe a drill's poison", None):
        producer.produce(context.site.spec.topic.name, value, partition=PARTITION, on_delivery=noted)
    producer.flush(30)
    if len(places) != 2:
        raise Failed("Kafka did not take the poison within 30 s")
    context.kept["places"] = places
    context.feed()


def detected_by_quarantine(context: DrillContext) -> tuple[float, str] | None:
    """Both are in the quarantine, each with its reason."""
    _, quarantine = lake.tables(context.site.stack, context.site.spec)
    columns = ("_kafka_partition", "_kafka_offset", "reason", "quarantined_at")
    found: dict[tuple[int, int], tuple[str, float]] = {}
    for batch in lake.scan(quarantine, columns):
        times = batch.column("quarantined_at").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
        for row, at in zip(batch.select(columns[:3]).to_pylist(), times, strict=True):
            place = (row["_kafka_partition"], row["_kafka_offset"])
            if place in context.kept["places"]:
                found[place] = (row["reason"] or "", at / 1e6)
    if set(found) != set(context.kept["places"]):
        return None
    for place, (reason, _) in found.items():
        if not reason:
            raise Failed(f"record {place} is in the quarantine without a reason")
    context.say("; ".join(f"{place}: {reason}" for place, (reason, _) in sorted(found.items())))
    return max(at for _, at in found.values()), "quarantine"


START_SECONDS = 120.0


def own(context: DrillContext) -> list[psutil.Process]:
    """The consumer that supervisord runs: the Python parent and its JVM."""
    return service_family(context.site, context.site.spec.program)


def kill_in_a_batch(context: DrillContext) -> None:
    caught = suspend_between_append_and_publish(context.site, lambda: own(context), context.feed)
    context.mark()
    signal_all(caught, signal.SIGKILL)


def suspend(context: DrillContext) -> None:
    context.mark()
    signal_all(own(context), signal.SIGSTOP)


def suspend_an_outsider_that_took_over(context: DrillContext) -> None:
    """The outsider stands for a node that was cut off: nobody who supervises the stream sees its process."""
    site = context.site
    before = site.epoch()
    log = site.stack.home.logs / "drill-outsider.log"
    with log.open("ab") as out:
        outsider = subprocess.Popen(
            [site.stack.context.python, *site.spec.component("consumer").arguments],
            env=site.stack.environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    context.kept["outsider"] = outsider
    context.await_("the outsider's take-over", lambda: site.epoch() > before, START_SECONDS)
    context.feed()
    context.await_(
        f"the supervised consumer's end with {exits.FENCED}",
        lambda: site.process()["statename"] == "EXITED",
        START_SECONDS,
    )
    if site.process()["exitstatus"] != exits.FENCED:
        raise Failed(f"the supervised consumer ended with {site.process()['exitstatus']}, superseded")

    def alive() -> list[psutil.Process]:
        if outsider.poll() is not None:
            raise Failed(f"the outsider ended with {outsider.returncode} before it was suspended: see {log}")
        return [psutil.Process(outsider.pid), *psutil.Process(outsider.pid).children(recursive=True)]

    context.kept["asleep"] = suspend_between_append_and_publish(site, alive, context.feed)
    context.kept["epoch"] = site.epoch()
    context.mark()


def wake_the_outsider(context: DrillContext) -> None:
    """It must notice that it is no owner any more, publish nothing, and end."""
    outsider: subprocess.Popen[bytes] = context.kept["outsider"]
    woken = time.time()
    signal_all(context.kept["asleep"], signal.SIGCONT)
    try:
        code = outsider.wait(START_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"the zombie still runs {START_SECONDS:.0f} s after it was woken") from error
    if code != exits.FENCED:
        raise Failed(f"the zombie ended with {code} and must end with {exits.FENCED}")
    epoch = context.kept["epoch"]
    mine = [commit for commit in context.site.commits(since=woken) if commit.epoch == epoch]
    if mine:
        raise Failed(f"the zombie (owner {epoch}) published {len(mine)} snapshots after its successor")
    context.say(
        f"the zombie, owner {epoch}, ended with {code} {time.time() - woken:.0f} s after it was woken"
    )


def damage_the_checkpoint(context: DrillContext) -> None:
    """First rubbish in every file, then no folder any more."""
    root = Path(context.site.stack.platform("consumer").checkpoints.root) / context.site.spec.name
    folder = root / f"w{context.site.epoch()}"
    files = [path for path in folder.rglob("*") if path.is_file()]
    if not files:
        raise Failed(f"{folder} holds no file: nothing to damage")
    context.mark()
    for path in files:
        if path.exists():
            path.write_bytes(b"\x00rubbish of a drill\xff" * 3)
    context.feed()
    time.sleep(2 * context.site.spec.consumer.trigger_seconds)
    shutil.rmtree(folder, ignore_errors=True)
    context.say(f"{len(files)} files of {folder} overwritten, then the folder removed")


DRILLS = [
    Drill(
        "poison_record",
        "a record that is no Avro, and a tombstone, at the head of a partition",
        send_poison,
        [detected_by_quarantine],
    ),
    Drill(
        "consumer_killed",
        "kill -9 of the consumer between the append of a batch and its publishing",
        kill_in_a_batch,
        [detected_by_runtime, detected_by_health],
    ),
    Drill(
        "consumer_hung",
        "SIGSTOP of the consumer and its JVM: alive, but nothing moves",
        suspend,
        [detected_by_health],
        detect_seconds=180.0,
    ),
    Drill(
        "consumer_zombie",
        "a consumer from elsewhere takes over, is suspended in a publish, and wakes under its successor",
        suspend_an_outsider_that_took_over,
        # That the supervised one was superseded is seen at once, and is no news.
        [detected_by_restartable_health],
        afterwards=wake_the_outsider,
        detect_seconds=180.0,
    ),
    Drill(
        "checkpoint_damaged",
        "rubbish in every file of the running owner's checkpoint, then the folder removed",
        damage_the_checkpoint,
        [detected_by_runtime, detected_by_health],
    ),
]
