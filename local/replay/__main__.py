"""`python -m local.replay`: the replay server until it is stopped (SIGTERM or Ctrl-C: 0)."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path

from local.base import UsageError, exit_code
from local.replay.server import Replay


def main(arguments: list[str]) -> int:
    """Serve until stopped. Raises UsageError for an invalid value or a port in use."""
    options = parser().parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        # The options are named as Replay's and Feed's parameters.
        with Replay(**vars(options)) as replay:
            print(f"{replay.url}: {options.rate or 'all'} events/s", flush=True)
            stop.wait()
    except ValueError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise UsageError(
            f"port {options.port}: {error.strerror or error}. Fix: give another with --port"
        ) from error
    return 0


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="local.replay", description=__doc__)
    add = options.add_argument
    add("--port", type=int, default=18081, help="on loopback; 0: a free one")
    add("--rate", type=float, default=50.0, help="events per second; 0: as fast as they are read")
    add("--total", type=int, help="maximum number of events")
    all_events = "a client without a position gets all events, not only new ones"
    add("--from-start", action="store_true", help=all_events)
    add("--start", type=float, help="the time of event 0, in seconds since 1970; default: now")
    add("--event-rate", type=float, help="events per second of their own time; default: the rate")
    add("--seed", type=int, default=1, help="another seed, other ids, users and servers")
    add("--servers", type=int, default=60, help="number of wikis")
    add("--users", type=int, default=2_000, help="number of editors")
    add("--late-share", type=float, default=0.002, help="share of changes that are 45 minutes late")
    add("--retry-ms", type=int, default=1_000, help="reconnection time sent to clients; 0: not sent")
    add("--keep-alive-seconds", type=float, default=15.0, help="seconds without an event before a comment")
    add("--position-file", type=Path, help="keeps the feed's position for the next start")
    add("--wait-for-client", action="store_true", help="the first event happens at the first request")
    return options


if __name__ == "__main__":
    sys.exit(exit_code(main))
