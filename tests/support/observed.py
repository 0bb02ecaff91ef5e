"""Streams as the observer sees them, made up, for the pages of streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sluice.config.stream import StreamSpec
from sluice.core.json_record import Document
from sluice.core.offsets.ranges import OffsetRanges
from sluice.core.processes.status import ProcessState, ProcessStatus
from sluice.core.tables.batches import Batch
from sluice.core.tables.position import Position
from sluice.supervision.observer.component_view import LastCheck
from sluice.supervision.observer.live import Live, LoadResult, Point
from sluice.supervision.rules.sample import Sample
from sluice.supervision.rules.status import Health, HealthReport
from sluice.web.data.sources import AirflowState

RUN = "manual__2026-11-24T10:00:00+00:00"


def process(program: str, state: ProcessState = ProcessState.RUNNING, at: float = 0.0) -> ProcessStatus:
    return ProcessStatus(program, state, pid=42, since=at - 600, description="pid 42")


def batch(number: int, at: float, first: int = 0, rows: int = 100) -> Batch:
    return Batch(
        snapshot_id=number,
        batch_id=number,
        writer="w1",
        epoch=3,
        ranges=OffsetRanges.of({0: [[first, first + rows]]}),
        ends={0: first + rows},
        rows=rows,
        files=1,
        started_at=int((at - 2) * 1000),
        published_at=int(at * 1000),
    )


def proof(run: str, records: int = 29_999, **more: Any) -> Document:
    return {"run_id": run, "topic_records": records, "published": records, "quarantined": 0} | more


def consumer(
    spec: StreamSpec, now: float, health: Health = Health.HEALTHY, lag: int = 120, **more: Any
) -> Live:
    """Over the last ten minutes 10 records a second arrived, and ``lag`` of them wait."""
    points = [
        Point(now - 600 + at, {0: 10 * at + 6000}, {0: 10 * at + 6000 - lag}) for at in range(0, 601, 30)
    ]
    newest = points[-1]
    sample = Sample(
        at=now,
        process=process(spec.program, at=now),
        topic_id="t",
        begins={0: 0},
        ends=dict(newest.ends),
        expiring={0: 0},
        published=Position(3, now - 4, now - 600, {0: 0}, dict(newest.unread)),
    )
    report = HealthReport(
        health, f"{lag} records wait, 10/s arrive", lag=lag, rate=10.0, arrivals=10.0, identity="1"
    )
    values: dict[str, Any] = {
        "at": now,
        "report": report,
        "sample": sample,
        "since": now - 4000,
        "batches": [batch(n, now - 4 - n * 10, 12_000 - lag - 100 * (n + 1)) for n in range(5)],
        "loads": [
            LoadResult(
                now - 3600, RUN, True, 4.2, 29_999, 29_999, 0, audit={"objects": 9, "versions_per_batch": 7}
            )
        ],
        "points": points,
    }
    return Live(**(values | more))


def component(spec: StreamSpec, name: str, now: float, health: Health = Health.IDLE, **more: Any) -> Live:
    program = spec.component(name).program
    values: dict[str, Any] = {
        "at": now,
        "report": HealthReport(health, f"{program} waits"),
        "sample": Sample(now, process(program, at=now)),
        "since": now - 90,
    }
    return Live(**(values | more))


def event(kind: str, at: float, **more: Any) -> Document:
    return {"kind": kind, "at": datetime.fromtimestamp(at, UTC).isoformat(), **more}


@dataclass
class FakeObserved:
    """What is known, which a test may change; everything else is unknown."""

    lives: dict[tuple[str, str], Live] = field(default_factory=dict)
    cycle_seconds: float = 10.0

    def live(self, stream: str, component: str) -> Live:
        return self.lives.get((stream, component), Live())

    def all(self) -> Callable[[str, str], Live]:
        return lambda stream, component: self.live(stream, component).brief()


def streams(specs: list[StreamSpec], now: float) -> FakeObserved:
    """All is well."""
    return FakeObserved(
        {
            (spec.name, name): consumer(spec, now) if name == "consumer" else component(spec, name, now)
            for spec in specs
            for name in spec.components
        }
    )


def airflow(specs: list[StreamSpec], now: float) -> AirflowState:
    checks = {spec.name: LastCheck(f"{spec.name}_stream", False, now - 41, True) for spec in specs}
    return AirflowState(checks, [], [])
