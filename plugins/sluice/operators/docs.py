"""The documentation of a stream's DAGs: a text, and a table of each task's own ``does`` and ``fails_if``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from sluice.model.spec.stream import SourceType, StreamSpec

RECORDS = {
    SourceType.CSV: "Rows of CSV objects",
    SourceType.FEED: "Events of a feed",
    SourceType.GENERATOR: "Generated records",
}
_SENT_ONCE = {
    SourceType.CSV: "An object version is loaded once; to load a corrected file, upload it under its name.",
    SourceType.FEED: "The offsets of a run begin where the topic ended before its first attempt, and end "
    "where it ended after the wait. One run at a time waits, so no event is in two runs' offsets.",
    SourceType.GENERATOR: "The same values are the same records, which are loaded once.",
}


class Step(Protocol):
    """A task that says in a line each what it does and when it fails."""

    task_id: str
    does: str
    fails_if: str


def steps_table(steps: Iterable[Step]) -> str:
    rows = (f"| `{step.task_id}` | {step.does} | {step.fails_if} |" for step in steps)
    return "\n".join(["| step | what it does | when it fails |", "|---|---|---|", *rows])


def load(spec: StreamSpec, steps: Iterable[Step]) -> str:
    queries = ", and the results of every query agree with it" if spec.queries else ""
    return f"""
### Load {spec.label}, and verify it

{RECORDS[spec.source]} go through the topic `{spec.topic.name}` into the table `{spec.table}`. The run
succeeds only if each record is there exactly once, or in quarantine with its reason{queries}.

{steps_table(steps)}

Every step may be cleared and run again, and runs may overlap. {_SENT_ONCE[spec.source]}
"""


def compact(spec: StreamSpec, steps: Iterable[Step]) -> str:
    return f"""
### Compact {spec.table}

Each batch adds a file to each partition that it touches. Once a day the files of closed dates become few
large ones.

{steps_table(steps)}

A rewrite is published only if the same rows are verified to be there, each once. The stream runs on
meanwhile: its consumer sees that the table was moved, and resumes from there.
"""
