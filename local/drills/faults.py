"""Faults, injected for real into processes of a stack."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable

import psutil

from local.drills.site import Site
from local.processes import of_stack

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


def service_family(site: Site, program: str) -> list[psutil.Process]:
    """The processes of one of supervisord's programs."""
    return family(int(site.process(program)["pid"]))


def suspend_between_append_and_publish(
    site: Site, processes: Callable[[], list[psutil.Process]], feed: Callable[[], None]
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


def wake_all(site: Site) -> list[psutil.Process]:
    """Lets every suspended process of the stack go on; gives them."""
    asleep = [p for p in of_stack(site.stack.home.id) if _status(p) == psutil.STATUS_STOPPED]
    signal_all(asleep, signal.SIGCONT)
    return asleep


def _status(process: psutil.Process) -> str:
    try:
        return str(process.status())
    except psutil.NoSuchProcess:
        return ""


def strangers(site: Site) -> list[psutil.Process]:
    """Consumers of the stream that run outside supervisord: the process itself, without what is below it."""
    ours = {process.pid for process in service_family(site, site.spec.program)}
    found: list[psutil.Process] = []
    for process in of_stack(site.stack.home.id):
        try:
            words = process.cmdline()
        except psutil.NoSuchProcess:
            continue
        if process.pid not in ours and words[1:] == [*site.spec.part("consumer").arguments]:
            found.append(process)
    return found
