"""Maintenance of a stream's tables: the section ``[maintenance]`` of its stream.toml."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, TypeVar

from sluice.config.sections.sink import SinkKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sluice.config.stream import StreamSpec

T = TypeVar("T")
# Intervals of the schedule. A run and its retries take less than one.
OVERDUE_INTERVALS = 3
# Between the clocks of two of Airflow's machines.
CLOCK_SLACK = timedelta(minutes=5)


@dataclass(frozen=True)
class Maintenance:
    schedule_hours: Annotated[int, "hours between two runs of maintenance"] = 24
    restore_horizon_days: Annotated[
        int,
        "a catalog restored to a state of the last N days finds all of its files",
    ] = 7
    reconciliation_hours: Annotated[
        int,
        "hours between two [reconciliations](operating.md#reconciliation-findings)",
    ] = 1

    def overdue(self, ended: datetime, now: datetime) -> str | None:
        """Why a person has to look at maintenance whose last complete run ended then."""
        if ended > now + CLOCK_SLACK:
            return (
                f"the last complete run of maintenance is recorded at {ended.isoformat(timespec='seconds')}, "
                "ahead of Airflow's clock: until then nothing is removed"
            )
        if now - ended <= OVERDUE_INTERVALS * timedelta(hours=self.schedule_hours):
            return None
        return (
            f"no run of maintenance was complete since {ended.isoformat(timespec='seconds')}, and one is due "
            f"every {self.schedule_hours} hours: files and metadata grow"
        )


def written_tables(spec: StreamSpec) -> list[str]:
    """The stream's table and its quarantine: each record is in one of them."""
    return [spec.table, spec.quarantine_table]


def compacted_tables(spec: StreamSpec) -> list[str]:
    """The stream's table, its quarantine, and the table of its queries' states.

    Not the tables of Iceberg sinks: each of their partitions is a window, which a batch replaces by one
    file, and files of two partitions are never put together.
    """
    return [*written_tables(spec), *([spec.queries_table] if spec.queries else [])]


def lake_tables(spec: StreamSpec) -> list[str]:
    """Every Iceberg table that the stream's processes write; one may not have been created yet."""
    sinks = (sink for query in spec.queries.values() for sink in query.sinks)
    results = {sink.table for sink in sinks if sink.kind == SinkKind.ICEBERG}
    return [*compacted_tables(spec), *sorted(results)]


def for_each_table(
    tables: Iterable[str], step: Callable[[str], T], log_exception: Callable[..., object]
) -> dict[str, T]:
    """The result of ``step`` by table. If it fails for one, the others are done, and then the first error is
    raised."""
    done, errors = dict[str, T](), list[Exception]()
    for table in tables:
        try:
            done[table] = step(table)
        except Exception as error:
            log_exception("%s: failed; other tables are not affected", table)
            errors.append(error)
    if errors:
        raise errors[0]
    return done
