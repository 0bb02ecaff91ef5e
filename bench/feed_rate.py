"""Measures the lag from a feed to the lake at a steady rate, and the CPU time of each process.

::

    python -m bench.feed_rate --rate 2000 --minutes 5 --out build/bench-feed-rate.json

On a stack of its own, with supervision on. Every ten seconds it reads the newest replayed event, the records
on the topic, and the records that readers of the lake see (or find in quarantine). The lag, the first minus
the last, falls with each published batch: compare the maximum of each minute (``lag_of_each_minute``). CPU
seconds are those of each program and its descendants, per 1,000 events.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from bench.supervision import cpu_seconds, cpu_seconds_since
from local.services import replay
from local.stack.stack import Stack, wait_until
from sluice.config import stream as streams
from tests.support.stream import StreamUnderTest

LOAD, STREAM = "wiki_changes_load", "wiki_changes_stream"
EVERY_SECONDS = 10.0


class Course:
    """The stream on a stack of its own."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.stream = StreamUnderTest(stack, streams.load("wiki_changes"))

    def start(self) -> None:
        """Create the topic and tables by a first load; supervision then starts the rest."""
        api = self.stack.airflow()
        for dag in (LOAD, STREAM):
            api.wait_for_dag(dag)
        api.unpause(LOAD)
        run = api.trigger(LOAD, {"events": 100, "minutes": 2})
        if api.wait(LOAD, run) != "success":
            raise RuntimeError(f"run {run} of {LOAD} failed")
        api.unpause(STREAM)
        wait_until("all components", self._all_run, 300)
        wait_until("the producer's first records", lambda: self.sample()["lag"] < 1000, 120)

    def _all_run(self) -> bool:
        components = self.stream.spec.components.values()
        return all(
            self.stream.process(component.program)["statename"] == "RUNNING" for component in components
        )

    def sample(self) -> dict[str, Any]:
        """The time in seconds since 1970, and the number of events per system."""
        now = time.time()
        status = httpx.get(f"{replay.url(self.stack.context)}/status", timeout=5, trust_env=False).json()
        topic = sum(after - first for first, after in self.stream.bounds().values())
        position = self.stream.lake.position(self.stream.spec.table)
        lake = 0 if position is None else sum(position.ends.values()) - sum(position.starts.values())
        replayed = status["n"] + 1
        return {"at": now, "replayed": replayed, "topic": topic, "lake": lake, "lag": replayed - lake}


def measure(rate: int, minutes: float) -> dict[str, Any]:
    """Measure `rate` events per second, on a new stack that is removed."""
    home = Path(tempfile.mkdtemp(prefix="sluice-bench-"))
    stack = Stack(home / "stack", free_ports=True, feed=replay.REPLAY)
    try:
        stack.up()
        course = Course(stack)
        course.start()
        before, samples = cpu_seconds(stack), [course.sample()]
        replay.burst(stack.context, int(rate * minutes * 60), rate)
        line = "{replayed:>10,} replayed {topic:>10,} on the topic {lake:>10,} in the lake"
        while samples[-1]["at"] - samples[0]["at"] < minutes * 60:
            time.sleep(EVERY_SECONDS)
            samples.append(course.sample())
            print(line.format(**samples[-1]))
        return report(samples, cpu_seconds_since(before, stack))
    finally:
        stack.destroy()
        shutil.rmtree(home, ignore_errors=True)


def report(samples: list[dict[str, Any]], spent: dict[str, float]) -> dict[str, Any]:
    """The figures of the samples, oldest first, and of CPU seconds by program."""
    first, last = samples[0], samples[-1]
    seconds, events = last["at"] - first["at"], last["replayed"] - first["replayed"]
    minutes: dict[int, int] = {}
    for sample in samples[1:]:
        minute = int((sample["at"] - first["at"] - 1) // 60)
        minutes[minute] = max(minutes.get(minute, 0), sample["lag"])
    return {
        "seconds": round(seconds),
        "events_per_second": round(events / seconds),
        "in_the_lake_per_second": round((last["lake"] - first["lake"]) / seconds),
        "lag_of_each_minute": [minutes[minute] for minute in sorted(minutes)],
        "lag_of_the_topic": max(sample["replayed"] - sample["topic"] for sample in samples),
        "cpu_seconds_per_1000_events": {
            name: round(1000 * value / events, 3) for name, value in spent.items()
        },
        "cores_busy": round(sum(spent.values()) / seconds, 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=int, default=2000)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--out", type=Path, default=Path("build/bench-feed-rate.json"))
    options = parser.parse_args()
    result = measure(options.rate, options.minutes)
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
