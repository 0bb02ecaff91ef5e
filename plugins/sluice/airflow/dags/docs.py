"""The documentation of a stream's DAGs: a text, and a table of the tasks."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from sluice.config.sections.backfill import Backfill
from sluice.config.stream import SourceType, StreamSpec
from sluice.config.tables import compacted_tables

RECORDS = {
    SourceType.CSV: "Rows of CSV objects",
    SourceType.FEED: "Events of a feed",
    SourceType.GENERATOR: "Generated records",
    SourceType.TOPIC: "Records of others",
}
_SENT_ONCE = {
    SourceType.CSV: "An object version is loaded once; to load a corrected file, upload it under its name.",
    SourceType.FEED: "The offsets of a run begin where the topic ended before its first attempt, and end "
    "where it ended after the wait. One run at a time waits, so no event is in two runs' offsets.",
    SourceType.GENERATOR: "The same values are the same records, which are loaded once.",
    SourceType.TOPIC: "A run begins where the last verified one ended; a scheduled run has the records of "
    "its interval, by their times. Nothing of the topic is changed, and nothing is sent to it.",
}


def steps_table(steps: Iterable[Any]) -> str:
    """A row per task, with its ``does`` and ``fails_if``."""
    rows = (f"| `{step.task_id}` | {step.does} | {step.fails_if} |" for step in steps)
    return "\n".join(["| step | what it does | when it fails |", "|---|---|---|", *rows])


def load(spec: StreamSpec, steps: Iterable[Any]) -> str:
    queries = ", and the results of every query agree with it" if spec.queries else ""
    return f"""
### Load {spec.label}, and verify it

{RECORDS[spec.source]} go through the topic `{spec.topic.name}` into the table `{spec.table}`. The run
succeeds only if each record is there exactly once, or in quarantine with its reason{queries}.

{steps_table(steps)}

Every step may be cleared and run again, and runs may overlap. {_SENT_ONCE[spec.source]}
"""


def backfill(spec: StreamSpec, backfill: Backfill, steps: Iterable[Any]) -> str:
    return f"""
### Load the files of an interval of {spec.label}, and verify them

One run per interval of `{backfill.schedule}`: the objects `{backfill.pattern}` of the source
bucket, with the date of the interval's begin, go into the table `{spec.table}`. For past intervals choose
**Backfill** in the Trigger dialog, or run `airflow backfill create --dag-id {spec.name}_backfill` with
`--from-date` and `--to-date`. While the DAG is not paused, it also runs at the end of each new interval.

{steps_table(steps)}

An interval may be run again (reprocess behaviour `failed` or `completed`): only files that no load has
verified are sent. An interval without a file fails, and so does one with a corrected file.
"""


def maintenance(spec: StreamSpec, steps: Iterable[Any]) -> str:
    tables = ", ".join(f"`{table}`" for table in compacted_tables(spec))
    return f"""
### Maintain {tables}

Each batch adds a file to each partition that it touches. Every {spec.maintenance.schedule_hours} hours small
files are rewritten into a few large ones: in a table partitioned first by a date those of closed dates, in
another those of a partition that has five or more.

{steps_table(steps)}

A rewrite is published only if it is verified to hold the same rows, each once. The stream runs meanwhile:
its consumer and its queries detect the commit and resume from it. Replaced files are deleted when no state
of the catalog of the last {spec.maintenance.restore_horizon_days} days needs them. Documents of batches that
are older than {spec.maintenance.history_days} days, and verified, are deleted, too; what they say of gaps in
the offsets stays.

Where the platform files declare `[lake] maintenance = "catalog"`, the catalog does all that by itself. The
steps that would are skipped then, and say so; `{spec.name}_reconciliation` verifies what the catalog
rewrites.
"""


def change(spec: StreamSpec, steps: Iterable[Any]) -> str:
    return f"""
### Change rows of `{spec.table}`

Read a range of the topic again, load what was quarantined and is good now, take a load's rows out, bring them
back, or replace those of a file that was corrected. The plan is counted and shown before anything is done.
Rows go and come in one commit beside the running stream, which readers see entirely or not at all; every
other row stays as it is.

{steps_table(steps)}

Every step may be cleared and run again: the table names the changes that it has, so each is made once.
"""


def reconciliation(spec: StreamSpec, steps: Iterable[Any]) -> str:
    return f"""
### Reconcile `{spec.table}` with its topic

Positions of the broker, the table and the consumer group are compared; every published offset is to be in the
table or in quarantine exactly once; every data file is to be as its manifest says. A run verifies what is new
since the last one that passed. What disagrees is a finding with a name.

{steps_table(steps)}

The steps do not depend on each other, and read only: the stream runs meanwhile. While nothing changed since
a run that passed, a step ends without a worker and says so, but for one run in
{spec.maintenance.reverify_hours} hours. Clear a step to repeat it.
"""


def invalid(stream: str, interval: timedelta, task: Any) -> str:
    return f"""
### Stream {stream} is invalid

Its declaration cannot be used, so it has no other DAGs; other streams are not affected. Components that run
go on with the declaration that they started with, and are not supervised.

{steps_table([task])}

Correct what the task names: its message is the reason, and the fix. The stream then has its DAGs again; until
then this one fails every {interval.total_seconds():g} seconds.
"""


def configuration(interval: timedelta, task: Any) -> str:
    return f"""
### Configuration of all streams

Something is wrong that belongs to no stream: a folder of `SLUICE_STREAMS`, the overrides, or two streams
that declare the same table or topic. Each valid stream runs nevertheless.

{steps_table([task])}

Correct what the task names. This DAG is gone then; until then it fails every {interval.total_seconds():g}
seconds.
"""


def connections(task: Any) -> str:
    return f"""
### Check the connections of all roles

Once a day each end of the platform files that are on this machine is asked: Kafka's brokers, S3, the catalog,
the registry, databases of results, mail servers, what runs the streams. Nothing of users is written.

{steps_table([task])}

The task's log has a table with each end's login, the ends of certificates and tokens, the clock and the
rights, and a line for each problem with its fix. `sluice check-connections` shows the same of other machines.
"""


def supervision(stream: str, interval: timedelta, steps: Iterable[Any]) -> str:
    return f"""
### Supervise stream {stream}

While this DAG is not paused, every component of the stream is to run. The runtime restarts a process that
ends. Every {interval.total_seconds():g} seconds Airflow checks each component's health, restarts a component
that is stalled or down. One that keeps failing stays red and untouched until a person acts.

{steps_table(steps)}

Trigger it with an action to restart, stop or start the stream or one component. A stopped component stays
stopped until such a request restarts or starts it. The ledger's `history` of each component records health
changes, restarts and requests. Tasks are not retried: the next run checks again.
"""
