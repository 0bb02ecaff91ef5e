"""What the observer knows, as JSON: written by its process, read by pages and supervision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sluice.config.stream import StreamSpec
from sluice.core.json_record import Document
from sluice.core.tables.batches import Batch
from sluice.supervision.observer.live import Counts, Live, LoadResult, Point
from sluice.supervision.rules.sample import Sample
from sluice.supervision.rules.status import HealthReport


def subject(spec: StreamSpec, component: str) -> Document:
    """What is observed: a reader with another declaration must not take the answer for its own."""
    return {
        "topic": spec.topic.name,
        "table": spec.table,
        "quarantine": spec.quarantine_table,
        "program": spec.component(component).program,
    }


def dump(live: Live) -> Document:
    """A component's document; :func:`parse` restores it."""
    return {
        "at": live.at,
        "report": live.report.to_json() if live.report else None,
        "sample": live.sample.to_json() if live.sample else None,
        "since": live.since,
        "recorded": live.recorded,
        "restarts": list(live.restarts),
        "suspended": live.suspended,
        "batches": [batch.to_json() for batch in live.batches],
        "loads": [vars(load) | {"problems": list(load.problems)} for load in live.loads],
        # By the number of partitions and of hours the longest part: no names.
        "points": [[point.at, list(point.ends.items()), list(point.unread.items())] for point in live.points],
        "counts": vars(live.counts),
        "errors": dict(live.errors),
        "behind": live.known_behind,
    }


def parse(document: Document) -> Live:
    """Raises ValueError for what :func:`dump` did not write."""
    try:
        return _parse(document)
    except (KeyError, TypeError) as error:
        raise ValueError(f"no document of a component: {type(error).__name__} {error}") from error


def _parse(document: Document) -> Live:
    report, sample, behind = document["report"], document["sample"], document["behind"]
    return Live(
        at=document["at"],
        report=HealthReport.from_json(report) if report else None,
        sample=Sample.from_json(sample) if sample else None,
        since=document["since"],
        recorded=document["recorded"],
        restarts=document["restarts"],
        suspended=document["suspended"],
        batches=[Batch.from_json(batch) for batch in document["batches"]],
        loads=[LoadResult(**load) for load in document["loads"]],
        points=[Point(at, dict(ends), dict(unread)) for at, ends, unread in document["points"]],
        counts=Counts(**document["counts"]),
        errors=document["errors"],
        known_behind=tuple(behind) if behind else None,
    )


def dump_samples(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    return [sample.to_json() for sample in samples]


def parse_samples(document: Sequence[dict[str, Any]]) -> list[Sample]:
    """Raises ValueError."""
    return [Sample.from_json(sample) for sample in document]
