"""From a feed to the lake at a steady rate: does the lag grow, and what does each process cost?

::

    python -m bench.feed_rate --rate 2000 --minutes 5 --out build/bench-feed-rate.json

A stack of its own, with supervision on, whose replay server sends so many events a second. Every ten seconds
three numbers are read from the systems: the newest event that was replayed, the records on the topic, and the
records that readers of the lake see (or find in quarantine). The lag is the first less the last; a batch
becomes visible as a whole, so it goes up and down with each: what counts is whether its highest points rise
(``lag_of_each_minute``). CPU seconds are those of each program and of all below it, per 1,000 events.
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
from local.drills.stream import StreamUnderTest
from local.services import replay
from local.stack.stack import Stack, wait_until
from sluice.model.spec import stream

LOAD, STREAM = "wiki_changes_load", "wiki_changes_stream"
EVERY_SECONDS = 10.0


class Course:
    """The stream on a stack of its own."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.site = StreamUnderTest(stack, stream.load("wiki_changes"))

    def start(self) -> None:
        """A first load makes the topic and the tables; then supervision starts the rest."""
        api = self.stack.airflow()
        for dag in (LOAD, STREAM):
            api.wait_for_dag(dag)
        api.unpause(LOAD)
        run = api.trigger(LOAD, {"events": 100, "minutes": 2})
        if api.wait(LOAD, run) != "success":
            raise RuntimeError(f"run {run} of {LOAD} did not end well")
        api.unpause(STREAM)
        wait_until("all parts", self._all_run, 300)
        wait_until("the producer's first records", lambda: self.look()["behind"] < 1000, 120)

    def _all_run(self) -> bool:
        components = self.site.spec.components.values()
        return all(self.site.process(component.program)["statename"] == "RUNNING" for component in components)

    def look(self) -> dict[str, Any]:
        """Seconds since 1970, and how far each has got."""
        now = time.time()
        status = httpx.get(f"{replay.url(self.stack.context)}/status", timeout=5, trust_env=False).json()
        topic = sum(after - first for first, after in self.site.bounds().values())
        known = self.site.lake.position(self.site.spec.table)
        lake = 0 if known is None else sum(known.ends.values()) - sum(known.starts.values())
        replayed = status["n"] + 1
        return {"at": now, "replayed": replayed, "topic": topic, "lake": lake, "behind": replayed - lake}


def measure(rate: int, minutes: float) -> dict[str, Any]:
    """Events per second and minutes -> the figures. Starts and removes a stack."""
    home = Path(tempfile.mkdtemp(prefix="sluice-bench-"))
    stack = Stack(home / "stack", free_ports=True, feed=replay.REPLAY)
    try:
        stack.up()
        course = Course(stack)
        course.start()
        before, looks = cpu_seconds(stack), [course.look()]
        replay.burst(stack.context, int(rate * minutes * 60), rate)
        while looks[-1]["at"] - looks[0]["at"] < minutes * 60:
            time.sleep(EVERY_SECONDS)
            looks.append(course.look())
            print(
                "{replayed:>10,} replayed {topic:>10,} on the topic {lake:>10,} in the lake".format(
                    **looks[-1]
                )
            )
        spent = cpu_seconds_since(before, stack)
        return report(looks, spent)
    finally:
        stack.destroy()
        shutil.rmtree(home, ignore_errors=True)


def report(looks: list[dict[str, Any]], spent: dict[str, float]) -> dict[str, Any]:
    """The figures out of the looks, oldest first, and of CPU seconds by program."""
    first, last = looks[0], looks[-1]
    seconds, events = last["at"] - first["at"], last["replayed"] - first["replayed"]
    minutes: dict[int, int] = {}
    for look in looks[1:]:
        minute = int((look["at"] - first["at"] - 1) // 60)
        minutes[minute] = max(minutes.get(minute, 0), look["behind"])
    return {
        "seconds": round(seconds),
        "events_per_second": round(events / seconds),
        "in_the_lake_per_second": round((last["lake"] - first["lake"]) / seconds),
        "lag_of_each_minute": [minutes[minute] for minute in sorted(minutes)],
        "lag_of_the_topic": max(look["replayed"] - look["topic"] for look in looks),
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
    given = parser.parse_args()
    found = measure(given.rate, given.minutes)
    given.out.parent.mkdir(exist_ok=True)
    given.out.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
