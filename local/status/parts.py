"""How the other parts of the streams are: looked at as supervision tends them, with what it wrote down."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from local.errors import Problem
from local.stack import Stack
from local.status.asking import Unseen
from local.status.streams import REQUEST_SECONDS, Past, Supervised, past
from sluice.clients.history import History
from sluice.clients.kafka import KafkaAdmin
from sluice.clients.keys import history_name
from sluice.io.s3 import connect
from sluice.model.health import Diagnosis, Facts
from sluice.model.samples import KAFKA, PROCESS
from sluice.model.stream import Part, StreamSpec
from sluice.model.tending import LOOK_SECONDS, LOOKS, Look, tend
from sluice.runtime.asking import ask
from sluice.runtime.supervisor import SupervisorRuntime


@dataclass(frozen=True)
class SeenPart:
    """Everything that was seen of a part; Unseen in the place of what did not answer."""

    diagnosis: Diagnosis | Unseen
    past: Past | Unseen
    supervised: Supervised | Unseen


def others(spec: StreamSpec) -> list[Part]:
    """The parts that heartbeats tell of: all but the consumer."""
    return [part for part in spec.parts.values() if part.name != "consumer"]


def questions(stack: Stack, spec: StreamSpec, part: Part) -> dict[str, Callable[[], Any]]:
    """What is asked about a part, besides what its stream is asked."""
    return {
        f"{part.program} diagnosis": lambda: diagnose(stack, spec, part),
        f"{part.program} past": lambda: past(_history(stack, spec, part), datetime.now(UTC)),
    }


def seen(answers: Mapping[str, Any], spec: StreamSpec, part: Part) -> SeenPart:
    """Out of the answers. One DAG supervises all parts of a stream."""
    return SeenPart(
        answers[f"{part.program} diagnosis"],
        answers[f"{part.program} past"],
        answers[f"{spec.name} supervised"],
    )


def diagnose(stack: Stack, spec: StreamSpec, part: Part) -> Diagnosis:
    """Looks, and once more where that may say something else; judges as supervision does.

    Raises ClientError when the history, which belongs to the verdict, does not answer.
    """
    platform = stack.platform("airflow")
    if platform.supervisor is None:
        raise Problem("the platform file of role 'airflow' has no [supervisor]: make up writes it")
    return look_at(
        spec,
        part,
        SupervisorRuntime(platform.supervisor, timeout=REQUEST_SECONDS),
        KafkaAdmin(platform.kafka, timeout=REQUEST_SECONDS),
        _history(stack, spec, part),
    )


def look_at(
    spec: StreamSpec,
    part: Part,
    runtime: SupervisorRuntime,
    kafka: KafkaAdmin,
    history: History,
    sleep: Callable[[float], None] = time.sleep,
) -> Diagnosis:
    """What `diagnose` does, with clients that are made already; `sleep`: between two looks."""
    facts: Facts = history.facts(datetime.now(UTC), spec.supervision)
    earlier: Look | None = None
    for number in range(LOOKS):
        if number:
            sleep(LOOK_SECONDS)
        trouble: dict[str, str] = {}
        process = ask(PROCESS, trouble, lambda: runtime.status(part.program))
        beat = ask(KAFKA, trouble, lambda: kafka.beat(spec.name, part.name, spec.topic.name))
        found = tend(process, beat, time.time(), spec.supervision, facts, trouble=trouble, earlier=earlier)
        if found.conclusive or trouble or process is None:
            return found
        earlier = Look(process, beat)
    return found


def _history(stack: Stack, spec: StreamSpec, part: Part) -> History:
    platform = stack.platform("airflow")
    return History(connect(platform.s3), platform.lake.ledger, history_name(spec.name, part.name))
