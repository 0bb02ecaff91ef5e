"""`python -m bench.scale`: what grows with rows, streams, partitions and batches, against its goals.

::

    local/run python -m bench.scale --rows 10000000    # a look of two minutes
    local/run python -m bench.scale                    # 112 million rows
    local/run python -m bench.scale --step whole_file  # no rows: hundreds of streams
    local/run python -m bench.scale --step history     # no rows: objects after 2,000 batches

Each step runs in a process of its own. Writes build/scale.json; exits with 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.table import Table

from bench.scale import history, many_streams, proofs, synthetic
from local.base import REPO
from sluice.cli.terminal import new_console

# The mission's own load.
ROWS = 112_000_000
# Figure -> the most that it may be; negative: the least.
GOALS = {"peak_mb": 512, "rows_per_cpu_second": -5_000_000, **many_streams.GOALS, **history.GOALS}
STEPS = [*proofs.STEPS, *many_streams.STEPS, *history.STEPS]


def is_reached(figure: str, value: float) -> bool:
    goal = GOALS[figure]
    return value >= -goal if goal < 0 else value <= goal


def measure(module: str, *arguments: str) -> dict[str, Any]:
    """What a step prints, in a process of its own."""
    command = [sys.executable, "-m", f"bench.scale.{module}", *arguments]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=REPO)
    found: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return found


def _rows(result: dict[str, Any], step: str) -> Iterator[tuple[str, float, float]]:
    """Figure, value and goal of a step; of many streams with what few take, which has no goal."""
    figures = result["proofs"].get(step) or result["history"].get(step) or result["streams"][step]["many"]
    for figure, goal in GOALS.items():
        if figure in figures:
            yield figure, figures[figure], goal


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.scale",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--step", choices=STEPS, action="append", help="by default all")
    parser.add_argument("--out", type=Path, default=REPO / "build" / "scale.json")
    options = parser.parse_args()
    machine = {"cores": len(os.sched_getaffinity(0)), "load_before": round(os.getloadavg()[0], 1)}
    result: dict[str, Any] = {"machine": machine, "goals": GOALS, "proofs": {}, "streams": {}, "history": {}}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    steps = options.step or STEPS
    with TemporaryDirectory(prefix="sluice-scale-") as folder:
        if set(steps) & set(proofs.STEPS):
            synthetic.write(Path(folder), options.rows)
        for step in steps:
            if step in proofs.STEPS:
                result["proofs"][step] = measure("proofs", step, folder, str(options.rows))
            elif step in history.STEPS:
                result["history"][step] = measure("history")
            else:
                counts = {"few": many_streams.FEW, "many": many_streams.STEPS[step].streams}
                result["streams"][step] = {
                    name: measure("many_streams", step, str(count)) for name, count in counts.items()
                }
            options.out.write_text(json.dumps(result, indent=2) + "\n")
    shown = Table("step", "figure", "value", "of 3 streams", "goal", "reached")
    missed = False
    for step in steps:
        for figure, value, goal in _rows(result, step):
            reached = is_reached(figure, value)
            missed |= not reached
            limit = f"at least {-goal:,}" if goal < 0 else f"at most {goal:,}"
            few = result["streams"].get(step, {}).get("few", {}).get(figure, "")
            shown.add_row(step, figure, f"{value:,}", str(few), limit, "yes" if reached else "no")
    new_console().print(shown)
    print(f"figures: {options.out}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
