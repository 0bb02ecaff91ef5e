"""How large for a goal: rows in a time -> partitions, executors, memory. Pure, but for its command line.

::

    python -m bench.compare.sizing --rows 112e6 --minutes 10 --rows-per-core-second 45000

``rows per core second`` is measured: ``consume.rows_per_cpu_second`` or ``produce.rows_per_cpu_second`` of
`make bench` on the machine in question. It assumes that rows/s grow with the cores, as they do until broker,
network or bucket are full: it says which rate these have to bear.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass

# Left free on each core: for garbage collection, the operating system, and to catch up after a failover.
HEADROOM = 0.3
CORES_PER_EXECUTOR = 4
# An executor's heap: a core's sort and Parquet buffers, besides what Spark takes once.
MEGABYTES_PER_CORE, MEGABYTES_ONCE = 512, 512
# Rows of a batch that are in memory or spilled while they are sorted, per core.
BYTES_IN_MEMORY = 2.0
# Partitions per core: a core that is done early takes another one.
TASKS_PER_CORE = 2
# What a batch takes besides its rows: planning, commit, verification and publish.
BATCH_SECONDS = 2.0


@dataclass(frozen=True)
class Goal:
    """``rows`` in ``seconds``, of ``row_bytes`` each as values in Kafka; visible in the lake every
    ``trigger_seconds``."""

    rows: float
    seconds: float
    row_bytes: float = 120.0
    trigger_seconds: float = 5.0


@dataclass(frozen=True)
class Sizing:
    """The smallest size that reaches a Goal."""

    rows_per_second: int
    """The goal's, rounded up; HEADROOM comes on top of it."""
    cores: int
    """Sum over the executors."""
    executors: int
    """Spark's, without the driver."""
    cores_per_executor: int
    """At most CORES_PER_EXECUTOR."""
    megabytes_per_executor: int
    """Heap."""
    partitions: int
    """The topic's: TASKS_PER_CORE for each core."""
    rows_per_batch: int
    """For max_offsets_per_trigger."""
    megabytes_per_second: float
    """Values read from Kafka (10^6 bytes), and as much to the bucket at most."""


def plan(goal: Goal, rows_per_core_second: float) -> Sizing:
    """The smallest size that reaches the goal. Raises ValueError for a number that is not positive."""
    if min(goal.rows, goal.seconds, goal.row_bytes, goal.trigger_seconds, rows_per_core_second) <= 0:
        raise ValueError(f"{goal} at {rows_per_core_second} rows/s per core: every number must be positive")
    rate = goal.rows / goal.seconds
    busy = (
        rows_per_core_second * (1 - HEADROOM) * goal.trigger_seconds / (goal.trigger_seconds + BATCH_SECONDS)
    )
    # A whole number of cores is not one more by rounding.
    cores = max(math.ceil(round(rate / busy, 6)), 1)
    per_executor = min(cores, CORES_PER_EXECUTOR)
    executors = math.ceil(cores / per_executor)
    rows_per_batch = math.ceil(rate * (goal.trigger_seconds + BATCH_SECONDS) / (1 - HEADROOM))
    in_batch = rows_per_batch * goal.row_bytes * BYTES_IN_MEMORY / executors / 2**20
    return Sizing(
        rows_per_second=math.ceil(rate),
        cores=executors * per_executor,
        executors=executors,
        cores_per_executor=per_executor,
        megabytes_per_executor=math.ceil(MEGABYTES_ONCE + MEGABYTES_PER_CORE * per_executor + in_batch),
        partitions=executors * per_executor * TASKS_PER_CORE,
        rows_per_batch=rows_per_batch,
        megabytes_per_second=round(rate * goal.row_bytes / 1e6, 1),
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=float, required=True)
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--rows-per-core-second", type=float, required=True)
    parser.add_argument("--row-bytes", type=float, default=Goal.row_bytes)
    parser.add_argument("--trigger-seconds", type=float, default=Goal.trigger_seconds)
    given = parser.parse_args()
    goal = Goal(given.rows, given.minutes * 60, given.row_bytes, given.trigger_seconds)
    for name, value in vars(plan(goal, given.rows_per_core_second)).items():
        print(f"{name:<24}{value:>14,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
