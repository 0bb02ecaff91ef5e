"""Faults of the consumer: killed, hung, a zombie, without its checkpoint."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil

from sluice.core.processes import exits
from sluice.core.tables.writers import epoch_of
from tests.drills.detectors import detected_by_health, detected_by_restartable_health, detected_by_runtime
from tests.drills.drill import Drill, DrillContext, Failed
from tests.support.processes import (
    component_processes,
    process_tree,
    signal_all,
    suspend_between_stage_and_publish,
)

START_SECONDS = 120.0


def kill_in_a_batch(context: DrillContext) -> None:
    caught = suspend_between_stage_and_publish(context.stream, context.send_batch)
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

    context.state["suspended"] = suspend_between_stage_and_publish(stream, context.send_batch, processes)
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
        "consumer_killed",
        "kill -9 of the consumer between the staging of a batch and its publish",
        kill_in_a_batch,
        [detected_by_runtime, detected_by_health],
    ),
    Drill(
        "consumer_hung",
        "SIGSTOP of the consumer: it is alive, but makes no progress",
        suspend,
        [detected_by_health],
        detect_seconds=180.0,
    ),
    Drill(
        "consumer_zombie",
        "A writer is paused during publish, and continues when it is fenced",
        suspend_a_second_consumer_with_the_lease,
        # That the managed one is fenced is the injection, not the detection.
        [detected_by_restartable_health],
        afterwards=resume_the_second_consumer,
        detect_seconds=180.0,
    ),
    Drill(
        "checkpoint_damaged",
        "A corrupt checkpoint of the running writer, then no checkpoint",
        corrupt_the_checkpoint,
        [detected_by_runtime, detected_by_health],
    ),
]
