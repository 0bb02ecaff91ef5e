"""Faults of the consumer: killed, hung, a zombie, without its checkpoint, malformed records."""

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
from sluice.core import exits
from sluice.core.writers import epoch_of

# Append and publish are some tenths of a second apart, so the moment may be missed.
TRIES = 12


def process_tree(pid: int) -> list[psutil.Process]:
    """A process and its descendants; empty if it has ended. Raises ValueError for the first process:
    to signal its descendants is to end the machine."""
    if pid == 1:
        raise ValueError("process 1 is no process of a stack")
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def signal_all(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        # psutil checks the start time: the id may be another process's by now.
        if process.is_running():
            try:
                os.kill(process.pid, number)
            except ProcessLookupError:
                continue  # it ended with its parent


def component_processes(stream: StreamUnderTest, program: str) -> list[psutil.Process]:
    """The processes of a component, without its parent process."""
    pid = stream.status(program).pid
    return process_tree(pid) if pid is not None else []


def suspend_between_append_and_publish(
    stream: StreamUnderTest, processes: Callable[[], list[psutil.Process]], send_batch: Callable[[], None]
) -> list[psutil.Process]:
    """Suspend the consumer after the append of a batch and before its publish; give its processes.

    Retries with another `send_batch` if the moment is missed. Raises TimeoutError after TRIES.
    """
    for _ in range(TRIES):
        before = stream.metadata_location()
        send_batch()
        caught = processes()
        stream.wait_for_commit(before)
        signal_all(caught, signal.SIGSTOP)
        if stream.has_unpublished_batch():
            return caught
        signal_all(caught, signal.SIGCONT)
    raise TimeoutError(f"missed the moment between append and publish {TRIES} times")


def resume_all(stream: StreamUnderTest) -> list[psutil.Process]:
    """Resume every suspended process of the stack; give them."""
    suspended = [p for p in stack_processes(stream.stack.home.id) if _status(p) == psutil.STATUS_STOPPED]
    signal_all(suspended, signal.SIGCONT)
    return suspended


def _status(process: psutil.Process) -> str:
    try:
        return str(process.status())
    except psutil.NoSuchProcess:
        return ""


def unmanaged_processes(stream: StreamUnderTest) -> list[psutil.Process]:
    """Consumers of the stream that run outside supervisord, without their descendants."""
    managed = {process.pid for process in process_tree(int(stream.process()["pid"]))}
    found: list[psutil.Process] = []
    for process in stack_processes(stream.stack.home.id):
        try:
            words = process.cmdline()
        except psutil.NoSuchProcess:
            continue
        if process.pid not in managed and words[1:] == [*stream.spec.component("consumer").arguments]:
            found.append(process)
    return found


PARTITION = 0


def send_malformed_records(context: DrillContext) -> None:
    """Bytes that are not Avro, and a tombstone; the records after them must not wait for them."""
    offsets: list[tuple[int, int]] = []

    def delivered(error: object, message: Any) -> None:
        if error is not None:
            raise Failed(f"Kafka did not take the malformed records: {error}")
        offsets.append((message.partition(), message.offset()))

    context.record_injection()
    producer = context.stream.producer()
    for value in (b"\xff\xfe a drill's malformed record", None):
        producer.produce(context.stream.spec.topic.name, value, partition=PARTITION, on_delivery=delivered)
    producer.flush(30)
    if len(offsets) != 2:
        raise Failed("Kafka did not take the malformed records within 30 s")
    context.state["offsets"] = offsets
    context.send_batch()


def detected_by_quarantine(context: DrillContext) -> tuple[float, str] | None:
    """Both records are in the quarantine, each with its reason."""
    _, quarantine = lake.tables(context.stream.stack, context.stream.spec)
    columns = ("_kafka_partition", "_kafka_offset", "reason", "quarantined_at")
    found: dict[tuple[int, int], tuple[str, float]] = {}
    for batch in lake.read(quarantine, columns):
        times = batch.column("quarantined_at").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
        for row, at in zip(batch.select(columns[:3]).to_pylist(), times, strict=True):
            offset = (row["_kafka_partition"], row["_kafka_offset"])
            if offset in context.state["offsets"]:
                found[offset] = (row["reason"] or "", at / 1e6)
    if set(found) != set(context.state["offsets"]):
        return None
    for offset, (reason, _) in found.items():
        if not reason:
            raise Failed(f"record {offset} is in the quarantine without a reason")
    context.say("; ".join(f"{offset}: {reason}" for offset, (reason, _) in sorted(found.items())))
    return max(at for _, at in found.values()), "quarantine"


START_SECONDS = 120.0


def suspend_in_a_batch(context: DrillContext) -> list[psutil.Process]:
    """The consumer's processes, suspended between append and publish."""
    stream = context.stream
    return suspend_between_append_and_publish(
        stream, lambda: component_processes(stream, stream.spec.program), context.send_batch
    )


def kill_in_a_batch(context: DrillContext) -> None:
    caught = suspend_in_a_batch(context)
    context.record_injection()
    signal_all(caught, signal.SIGKILL)


def suspend(context: DrillContext) -> None:
    context.record_injection()
    signal_all(component_processes(context.stream, context.stream.spec.program), signal.SIGSTOP)


def suspend_a_second_consumer_with_the_lease(context: DrillContext) -> None:
    """The second consumer is like a node that was cut off: no supervisor of the stream sees its process."""
    stream = context.stream
    before = stream.epoch()
    log = stream.stack.home.logs / "drill-second-consumer.log"
    with log.open("ab") as out:
        second = subprocess.Popen(
            [stream.stack.context.python, *stream.spec.component("consumer").arguments],
            env=stream.stack.context.job_environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    context.state["second"] = second
    context.wait_for("the second consumer's lease", lambda: stream.epoch() > before, START_SECONDS)
    context.send_batch()
    context.wait_for(
        f"the managed consumer's exit {exits.FENCED}",
        lambda: stream.process()["statename"] == "EXITED",
        START_SECONDS,
    )
    if stream.process()["exitstatus"] != exits.FENCED:
        raise Failed(f"the managed consumer exited with {stream.process()['exitstatus']}, not {exits.FENCED}")

    def processes() -> list[psutil.Process]:
        if second.poll() is not None:
            raise Failed(f"the second consumer exited early with {second.returncode}: see {log}")
        return process_tree(second.pid)

    context.state["suspended"] = suspend_between_append_and_publish(stream, processes, context.send_batch)
    context.state["epoch"] = stream.epoch()
    context.record_injection()


def resume_the_second_consumer(context: DrillContext) -> None:
    """It must detect that it is fenced, publish nothing, and exit."""
    second: subprocess.Popen[bytes] = context.state["second"]
    resumed = time.time()
    signal_all(context.state["suspended"], signal.SIGCONT)
    try:
        code = second.wait(START_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"the zombie still runs {START_SECONDS:.0f} s after SIGCONT") from error
    if code != exits.FENCED:
        raise Failed(f"the zombie exited with {code}, not {exits.FENCED}")
    epoch = context.state["epoch"]
    published = [commit for commit in context.stream.commits(since=resumed) if commit.epoch == epoch]
    if published:
        raise Failed(f"the zombie (epoch {epoch}) published {len(published)} snapshots after its successor")
    context.say(f"the zombie (epoch {epoch}) exited with {code} {time.time() - resumed:.0f} s after SIGCONT")


def corrupt_the_checkpoint(context: DrillContext) -> None:
    """First garbage in every file, then no folder."""
    checkpoints = context.stream.stack.platform("consumer").checkpoints
    if checkpoints.in_bucket:
        raise Failed(f"checkpoints are in {checkpoints.root}; this drill corrupts those in a folder")
    root = Path(checkpoints.root) / context.stream.spec.name
    epoch = context.stream.epoch()
    folder = next((path for path in root.iterdir() if epoch_of(path.name) == epoch), root / "none")
    paths = [path for path in folder.rglob("*") if path.is_file()]
    if not paths:
        raise Failed(f"{folder} holds no file to corrupt")
    context.record_injection()
    for path in paths:
        if path.exists():
            path.write_bytes(b"\x00garbage of a drill\xff" * 3)
    context.send_batch()
    time.sleep(2 * context.stream.spec.consumer.trigger_seconds)
    shutil.rmtree(folder, ignore_errors=True)
    context.say(f"{len(paths)} files of {folder} overwritten, then the folder removed")


DRILLS = [
    Drill(
        "malformed_record",
        "bytes that are not Avro, and a tombstone, at the head of a partition",
        send_malformed_records,
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
        "SIGSTOP of the consumer and its JVM: alive without progress",
        suspend,
        [detected_by_health],
        detect_seconds=180.0,
    ),
    Drill(
        "consumer_zombie",
        "a second consumer acquires the lease, is suspended in a publish, and resumes after its successor",
        suspend_a_second_consumer_with_the_lease,
        # That the managed one is fenced is the injection, not the detection.
        [detected_by_restartable_health],
        afterwards=resume_the_second_consumer,
        detect_seconds=180.0,
    ),
    Drill(
        "checkpoint_damaged",
        "garbage in every file of the active writer's checkpoint, then the folder removed",
        corrupt_the_checkpoint,
        [detected_by_runtime, detected_by_health],
    ),
]
