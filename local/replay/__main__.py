"""`python -m local.replay`: the replay server until it is stopped (SIGTERM or Ctrl-C: 0)."""

from __future__ import annotations

import argparse
import signal
import threading
from pathlib import Path

from local.base import UsageError, end_with
from local.replay.server import Replay


def main(arguments: list[str]) -> int:
    """Serves until it is told to stop. Raises UsageError for a wrong value or a port that is taken."""
    options = parser().parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        replay = Replay(
            rate=options.rate,
            port=options.port,
            total=options.total,
            from_start=options.from_start,
            start=options.start,
            pace=options.pace,
            retry_ms=options.retry_ms,
            keep_alive_seconds=options.keep_alive_seconds,
            place=options.place,
            patient=options.patient,
            seed=options.seed,
            servers=options.servers,
            users=options.users,
            late_share=options.late_share,
        )
        with replay:
            print(f"{replay.url}: {options.rate or 'all'} events/s", flush=True)
            stop.wait()
    except ValueError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise UsageError(
            f"port {options.port}: {error.strerror or error}; give another with --port"
        ) from error
    return 0


def parser() -> argparse.ArgumentParser:
    """Of the command line."""
    made = argparse.ArgumentParser(prog="local.replay", description=__doc__)
    add = made.add_argument
    add("--port", type=int, default=18081, help="on loopback; 0: a free one")
    add("--rate", type=float, default=50.0, help="events per second; 0: as fast as they are read")
    add("--total", type=int, help="no more events than that")
    add("--from-start", action="store_true", help="who says no position gets everything, not what is new")
    add("--start", type=float, help="when event 0 happened, in seconds since 1970; default: now")
    add("--pace", type=float, help="events per second of their own time; default: the rate")
    add("--seed", type=int, default=1, help="another seed, other ids, users and servers")
    add("--servers", type=int, default=60, help="how many wikis there are")
    add("--users", type=int, default=2_000, help="how many editors there are")
    add("--late-share", type=float, default=0.002, help="how many of the changes come 45 minutes late")
    add("--retry-ms", type=int, default=1_000, help="what clients are told to wait; 0: nothing is said")
    add("--keep-alive-seconds", type=float, default=15.0, help="a comment after so long without an event")
    add("--place", type=Path, help="a file that keeps how far the feed is, for the next start")
    add("--patient", action="store_true", help="the first event happens when somebody asks for the feed")
    return made


if __name__ == "__main__":
    end_with(main)
