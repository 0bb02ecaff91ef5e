"""Makes a stack whole again, whatever a drill has broken and wherever it was interrupted."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil

from local.drills.consumer_faults import strangers, wake_all
from local.drills.service_faults import FILLER
from local.drills.stream import StreamUnderTest
from local.runtime.processes import describe, stack_processes
from local.stack import health

_ORPHANS = ("airflow worker", "airflow scheduler", "airflow triggerer")
SERVICES_SECONDS = 180.0


def heal(site: StreamUnderTest, say: Callable[[str], None]) -> None:
    """Repeatable, and nothing to do on a stack that is whole. What cannot be mended is said.

    Ends consumers from elsewhere, wakes what is suspended, takes the disk's filler away, writes the platform
    files as they must be (and lets a consumer that was given others end: supervision starts it anew), and
    starts the services.
    """
    mended: list[str] = []
    for stranger in strangers(site):
        # In this order: a suspended one must not publish again before it ends.
        for process in [*stranger.children(recursive=True), stranger]:
            process.kill()
        mended.append(f"ended {describe(stranger)}, a consumer from elsewhere")
    awake = wake_all(site)
    if awake:
        mended.append(f"woke {', '.join(map(describe, awake))}")
    filler = site.stack.home.data / "minio" / FILLER
    if filler.exists():
        filler.unlink()
        mended.append(f"removed {filler}")
    if site.stack.write_platform_files():
        site.stop_stream()
        mended.append("wrote the platform files anew, and stopped the consumer that had others")
    mended += _end_orphans(site)
    for name, info in site.stack.daemon.states().items():
        if not name.startswith("stream-") and info["statename"] not in ("RUNNING", "STARTING", "BACKOFF"):
            site.stack.daemon.ensure_started(name)
            mended.append(f"started {name}")
    for line in mended:
        say(f"mended: {line}")
    wait_for_services(site)


def wait_for_services(site: StreamUnderTest, seconds: float = SERVICES_SECONDS) -> None:
    """Until every service answers that it is well. Raises TimeoutError naming those that are not."""
    deadline = time.monotonic() + seconds
    while True:
        rows = health.rows(site.stack.context, site.stack.daemon.states())
        ill = [f"{row.name}: {row.health}" for row in rows if row.fine is False and not row.is_stream]
        if not ill:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"not well {seconds:.0f} s after the drill: {'; '.join(ill)}")
        time.sleep(1)


def _end_orphans(site: StreamUnderTest) -> list[str]:
    """A killed scheduler's workers wait for work that never comes, and hold 200 MB each. One that still has a
    task, which is a child of its own, is left alone."""
    ended = []
    for process in stack_processes(site.stack.home.id):
        try:
            is_airflows = any(word in " ".join(process.cmdline()) for word in _ORPHANS)
            if process.ppid() == 1 and is_airflows and not process.children():
                process.kill()
                ended.append(f"ended {describe(process)}, left behind by a killed parent")
        except psutil.NoSuchProcess:
            continue
    return ended
