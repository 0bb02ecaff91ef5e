"""`python -m bench.scale`: what grows with rows, streams, partitions and batches, against its goals.

::

    local/run python -m bench.scale --rows 10000000    # a look of two minutes
    local/run python -m bench.scale                    # 112 million rows

Each step runs in a process of its own. Writes build/scale.json; exits with 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.table import Table

from bench.scale import proofs, synthetic
from local.base import REPO
from sluice.cli.terminal import new_console

# The mission's own load.
ROWS = 112_000_000
# Figure -> the most that it may be; negative: the least.
GOALS = {"peak_mb": 512, "rows_per_cpu_second": -5_000_000}


def is_reached(figure: str, value: float) -> bool:
    goal = GOALS[figure]
    return value >= -goal if goal < 0 else value <= goal


def measure(step: str, folder: Path, rows: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.scale.proofs", step, str(folder), str(rows)]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=REPO)
    found: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.scale",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--step", choices=list(proofs.STEPS), action="append", help="by default all")
    parser.add_argument("--out", type=Path, default=REPO / "build" / "scale.json")
    options = parser.parse_args()
    machine = {"cores": len(os.sched_getaffinity(0)), "load_before": round(os.getloadavg()[0], 1)}
    result: dict[str, Any] = {"machine": machine, "goals": GOALS, "proofs": {}}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="sluice-scale-") as folder:
        synthetic.write(Path(folder), options.rows)
        for step in options.step or proofs.STEPS:
            result["proofs"][step] = measure(step, Path(folder), options.rows)
            options.out.write_text(json.dumps(result, indent=2) + "\n")
    shown = Table("step", "figure", "value", "goal", "reached")
    missed = False
    for step, figures in result["proofs"].items():
        for figure, goal in GOALS.items():
            reached = is_reached(figure, figures[figure])
            missed |= not reached
            limit = f"at least {-goal:,}" if goal < 0 else f"at most {goal:,}"
            shown.add_row(step, figure, f"{figures[figure]:,}", limit, "yes" if reached else "no")
    new_console().print(shown)
    print(f"figures: {options.out}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
