"""What a run saw of its stream: the diagnosis, the looks that it rests on, and the verdict's record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sluice.clients.errors import Missing
from sluice.model.health import Diagnosis
from sluice.model.json_record import JsonRecord
from sluice.model.samples import Sample

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.clients.history import History


@dataclass(frozen=True)
class Observation(JsonRecord):
    """``samples``: oldest first; the last is the one that was judged."""

    diagnosis: Diagnosis
    samples: Sequence[Sample]


def seen(context: Context, task_id: str) -> Observation:
    """What the run's task ``task_id`` observed. Raises Missing where it has not."""
    found = context["ti"].xcom_pull(task_ids=task_id)
    if found is None:
        raise Missing(f"the run has no observation; clear its {task_id} task")
    return Observation.from_json(found)


def record_verdict(history: History, diagnosis: Diagnosis) -> str | None:
    """Record the verdict where it is another than the history's newest; returns that one, None before any."""
    latest = history.latest("verdict")
    before = latest["verdict"] if latest else None
    if before != diagnosis.verdict.value:
        document = {
            "verdict": diagnosis.verdict.value,
            "sentence": diagnosis.sentence,
            "before": before,
            "evidence": diagnosis.evidence,
        }
        history.record("verdict", document, datetime.now(UTC))
    return before


def thin(samples: Sequence[Sample], seconds: float, most: int) -> list[Sample]:
    """At most ``most`` of the samples, evenly over the ``seconds`` before the last one, which is kept.

    For the next run, which judges over the looks of earlier ones: it needs how far back they reach, not how
    close together they were. Thinned from the oldest on: what was kept once stays, however soon after each
    other the runs come. From the newest on, each would drop the one before it, and nothing would add up. What
    a clock that was put back makes later than the last one is left out.
    """
    apart = seconds / max(most - 2, 1)
    kept: list[Sample] = []
    for sample in samples[:-1]:
        is_recent = 0 <= samples[-1].at - sample.at <= seconds
        if is_recent and (not kept or sample.at - kept[-1].at >= apart):
            kept.append(sample)
    return [*kept, *samples[-1:]]
