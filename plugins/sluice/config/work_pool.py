"""The pool of Airflow in which everything runs but supervision, so that a restart finds a slot at once.

Priorities decide who is next; where every slot has a task of two hours, no one is. So the pool is smaller
than the number of tasks that run at once. A task of a pool that does not exist never runs: the
scheduler makes it when it starts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from sluice.config.reading.toml import ConfigError

# ``<name>:<slots>``: the DAG processor reads the name, who starts the scheduler both.
VARIABLE = "SLUICE_WORK_POOL"
NAME = "sluice_work"
# Airflow's own, where none is declared.
DEFAULT = "default_pool"
_TEXT = re.compile(r"([A-Za-z0-9_.-]+):([1-9][0-9]{0,5})")


def declared(parallelism: int) -> str:
    """The variable's text for an executor of so many tasks at once: one slot is left to supervision."""
    return f"{NAME}:{max(1, parallelism - 1)}"


def name(environ: Mapping[str, str] | None = None) -> str:
    """The pool's name."""
    text = (os.environ if environ is None else environ).get(VARIABLE, "")
    return text.partition(":")[0] or DEFAULT


def parse(text: str) -> tuple[str, int]:
    """Name and number of slots. Raises ConfigError."""
    found = _TEXT.fullmatch(text)
    if found is None:
        raise ConfigError(
            f"{VARIABLE} is {text!r}. Fix: set it to a pool's name and slots, as {NAME}:3, or leave it out"
        )
    return found[1], int(found[2])
