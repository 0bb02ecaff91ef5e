"""The consumer dies, hangs, comes back from the dead, or loses what it keeps beside the lake."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil

from local.drills.drill import Drill, Failed, Scene
from local.drills.faults import service_family, signal_all, suspend_between_append_and_publish
from local.drills.notices import by_verdict, by_verdict_to_restart
from sluice.model.process import SUPERSEDED_STATUS

START_SECONDS = 120.0


def own(scene: Scene) -> list[psutil.Process]:
    """The consumer that supervisord runs: the Python parent and its JVM."""
    return service_family(scene.site, scene.site.spec.program)


def kill_in_a_batch(scene: Scene) -> None:
    caught = suspend_between_append_and_publish(scene.site, lambda: own(scene), scene.feed)
    scene.mark()
    signal_all(caught, signal.SIGKILL)


def suspend(scene: Scene) -> None:
    scene.mark()
    signal_all(own(scene), signal.SIGSTOP)


def suspend_an_outsider_that_took_over(scene: Scene) -> None:
    """The outsider stands for a node that was cut off: nobody who supervises the stream sees its process."""
    site = scene.site
    before = site.token()
    log = site.stack.home.logs / "drill-outsider.log"
    with log.open("ab") as out:
        outsider = subprocess.Popen(
            [site.stack.context.python, *site.spec.part("consumer").arguments],
            env=site.stack.environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    scene.kept["outsider"] = outsider
    scene.await_("the outsider's take-over", lambda: site.token() > before, START_SECONDS)
    scene.feed()
    scene.await_(
        f"the supervised consumer's end with {SUPERSEDED_STATUS}",
        lambda: site.process()["statename"] == "EXITED",
        START_SECONDS,
    )
    if site.process()["exitstatus"] != SUPERSEDED_STATUS:
        raise Failed(f"the supervised consumer ended with {site.process()['exitstatus']}, superseded")

    def alive() -> list[psutil.Process]:
        if outsider.poll() is not None:
            raise Failed(f"the outsider ended with {outsider.returncode} before it was suspended: see {log}")
        return [psutil.Process(outsider.pid), *psutil.Process(outsider.pid).children(recursive=True)]

    scene.kept["asleep"] = suspend_between_append_and_publish(site, alive, scene.feed)
    scene.kept["token"] = site.token()
    scene.mark()


def wake_the_outsider(scene: Scene) -> None:
    """It must notice that it is no owner any more, publish nothing, and end."""
    outsider: subprocess.Popen[bytes] = scene.kept["outsider"]
    woken = time.time()
    signal_all(scene.kept["asleep"], signal.SIGCONT)
    try:
        code = outsider.wait(START_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise Failed(f"the zombie still runs {START_SECONDS:.0f} s after it was woken") from error
    if code != SUPERSEDED_STATUS:
        raise Failed(f"the zombie ended with {code} and must end with {SUPERSEDED_STATUS}")
    token = scene.kept["token"]
    mine = [step for step in scene.site.steps(since=woken) if step.token == token]
    if mine:
        raise Failed(f"the zombie (owner {token}) published {len(mine)} snapshots after its successor")
    scene.say(f"the zombie, owner {token}, ended with {code} {time.time() - woken:.0f} s after it was woken")


def damage_the_checkpoint(scene: Scene) -> None:
    """First rubbish in every file, then no folder any more."""
    root = Path(scene.site.stack.platform("consumer").checkpoints.root) / scene.site.spec.name
    folder = root / f"w{scene.site.token()}"
    files = [path for path in folder.rglob("*") if path.is_file()]
    if not files:
        raise Failed(f"{folder} holds no file: nothing to damage")
    scene.mark()
    for path in files:
        if path.exists():
            path.write_bytes(b"\x00rubbish of a drill\xff" * 3)
    scene.feed()
    time.sleep(2 * scene.site.spec.consumer.trigger_seconds)
    shutil.rmtree(folder, ignore_errors=True)
    scene.say(f"{len(files)} files of {folder} overwritten, then the folder removed")


DRILLS = [
    Drill(
        "consumer_killed",
        "kill -9 of the consumer between the append of a batch and its publishing",
        kill_in_a_batch,
        [by_verdict],
    ),
    Drill(
        "consumer_hung",
        "SIGSTOP of the consumer and its JVM: alive, but nothing moves",
        suspend,
        [by_verdict],
        notice_seconds=180.0,
    ),
    Drill(
        "consumer_zombie",
        "a consumer from elsewhere takes over, is suspended in a publish, and wakes under its successor",
        suspend_an_outsider_that_took_over,
        # That the supervised one was superseded is seen at once, and is no news.
        [by_verdict_to_restart],
        afterwards=wake_the_outsider,
        notice_seconds=180.0,
    ),
    Drill(
        "checkpoint_damaged",
        "rubbish in every file of the running owner's checkpoint, then the folder removed",
        damage_the_checkpoint,
        [by_verdict],
    ),
]
