"""`local/run bench`: Sluice and other ways from CSV to Kafka to S3, in turns, on one machine.

::

    local/run bench                                    # all workloads, 3 turns each: hours
    local/run bench --scale 0.1 --workload one_batch   # a look of five minutes

On a stack of its own, without Airflow's processes. CPU seconds are those of the job's
processes; ``seconds`` depend on what else the machine does, their ratio of runs in turn less so. Writes
build/bench.json and build/bench.svg.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from rich.table import Table

from bench.compare.chart import write_chart
from bench.compare.figures import GOALS, headlines, is_reached, rows
from bench.compare.workloads import WORKLOADS, Size, run
from local.base import REPO
from sluice.cli.terminal import new_console


def show(result: dict[str, Any]) -> None:
    """Print each workload's figures and the headlines with their goals."""
    console = new_console()
    for name, workload in result["workloads"].items():
        heading, *lines = rows(workload)
        table = Table(heading[0], title=f"{name}: {workload['settings']}", title_justify="left")
        for column in heading[1:]:
            table.add_column(column, justify="right")
        for line in lines:
            table.add_row(*line)
        console.print(table)
    table = Table("ratio", "value", "goal", "reached", title="Sluice by the other", title_justify="left")
    for key, value in result["ratio"].items():
        goal = GOALS[key]
        limit = f"at least {-goal:g}" if goal < 0 else f"at most {goal:g}"
        table.add_row(key, f"{value:.3g}", limit, "yes" if is_reached(key, value) else "no")
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="local/run bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--workload", default="", help="by default all")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--out", type=Path, default=REPO / "build" / "bench.json")
    options = parser.parse_args()
    # Otherwise the stack would stay.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    size = Size(options.scale, options.turns)
    machine = {"cores": len(os.sched_getaffinity(0)), "load_before": round(os.getloadavg()[0], 1)}
    result: dict[str, Any] = {"scale": size.scale, "machine": machine, "ratio": {}, "workloads": {}}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    names = options.workload.split(",") if options.workload else list(WORKLOADS)
    if unknown := [name for name in names if name not in WORKLOADS]:
        parser.error(f"no workload {unknown[0]!r}: use {', '.join(WORKLOADS)}")
    for name, workload in run(names, size):
        result["workloads"][name] = workload
        result["ratio"] = headlines(result["workloads"])
        options.out.write_text(json.dumps(result, indent=2) + "\n")
    show(result)
    write_chart(result, options.out.with_suffix(".svg"))
    print(f"figures: {options.out}   chart: {options.out.with_suffix('.svg')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
