"""What a run saw of its stream: the diagnosis, and the looks that it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluice.clients.errors import Missing
from sluice.model.health import Diagnosis
from sluice.model.samples import Sample

if TYPE_CHECKING:
    from airflow.sdk import Context


@dataclass(frozen=True)
class Observation:
    """``samples``: oldest first; the last is the one that was judged."""

    diagnosis: Diagnosis
    samples: Sequence[Sample]

    def to_json(self) -> dict[str, Any]:
        return {
            "diagnosis": self.diagnosis.to_json(),
            "samples": [sample.to_json() for sample in self.samples],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Observation:
        return cls(
            diagnosis=Diagnosis.from_json(data["diagnosis"]),
            samples=[Sample.from_json(sample) for sample in data["samples"]],
        )


def seen(context: Context, task_id: str) -> Observation:
    """What the run's task ``task_id`` observed. Raises Missing where it has not."""
    found = context["ti"].xcom_pull(task_ids=task_id)
    if found is None:
        raise Missing(f"the run has no observation; clear its {task_id} task")
    return Observation.from_json(found)


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
