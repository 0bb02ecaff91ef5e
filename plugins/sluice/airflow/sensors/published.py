"""Wait until records are published, or counted by the queries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sluice.airflow.failures import failed
from sluice.airflow.operators.load.interval import load_id
from sluice.airflow.sensors.base import StreamSensor
from sluice.airflow.triggers.published import VERBS, PublishedTrigger
from sluice.airflow.triggers.wait import Outcome, PollTrigger
from sluice.core.error_codes import ErrorCode
from sluice.core.offsets.ranges import OffsetRanges
from sluice.loads.planning import interval as interval_plan
from sluice.loads.sending import produced

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.exceptions import AirflowFailException

TIMEOUT = timedelta(minutes=30)
POKE_SECONDS = 1.0
# A parameter of the run's form that shortens the wait.
TIMEOUT_PARAM = "publish_timeout_minutes"
Offsets = str | Mapping[str, Sequence[Sequence[int]]]


class PublishedSensor(StreamSensor):
    """Wait until ``main`` covers offsets; with component ``queries``, until every query of the stream that
    aggregates has counted them.

    ``offsets``: per partition pairs of the first offset and the one behind the last, also as JSON; or
    ``load``: the run id of a load; by default this run is the load. Both are templates. Fails at once, with
    the end of the component's log, if it is down for two and a half supervision intervals or keeps
    restarting; fails after ``timeout``, or after the run's param ``publish_timeout_minutes`` if that is less.
    """

    fails_if = "the component is down, or the timeout is over"

    template_fields: Sequence[str] = (*StreamSensor.template_fields, "offsets", "load")

    def __init__(
        self,
        *,
        offsets: Offsets | None = None,
        load: str | None = None,
        poke_interval: timedelta | float = POKE_SECONDS,
        timeout: timedelta | float = TIMEOUT,
        **kwargs: Any,
    ) -> None:
        if offsets is not None and load is not None:
            raise ValueError("PublishedSensor: both offsets and load are given. Fix: give one of the two")
        super().__init__(poke_interval=poke_interval, timeout=timeout, **kwargs)
        self.offsets = offsets
        self.load = load
        # What it was given may be rendered to nothing.
        self.given = "offsets" if offsets is not None else "load" if load is not None else ""
        by = "the queries" if self.component == "queries" else "the consumer"
        self.does = f"waits until all records are {self.verb} by {by}"

    @property
    def verb(self) -> str:
        return VERBS.get(self.component, "published")

    def seconds(self, context: Context) -> float:
        minutes = context["params"].get(TIMEOUT_PARAM)
        return min(self.timeout, float(minutes) * 60) if minutes is not None else float(self.timeout)

    def condition(self, context: Context) -> tuple[type[PollTrigger], dict[str, Any]]:
        expected = self._expected(context)
        minutes = self.seconds(context) / 60
        self.log.info("wait started: records=%d timeout_minutes=%g %s", expected.count, minutes, expected)
        return PublishedTrigger, {"grace": self.grace, "expected": expected.to_json()}

    def _expected(self, context: Context) -> OffsetRanges:
        if self.given and not getattr(self, self.given):
            raise failed(
                ErrorCode.INVALID_PARAMETER,
                f"{self.given} is {getattr(self, self.given)!r}, which names no record. Fix: see the task "
                "that gives it",
            )
        if self.offsets is None:
            load, task = self._load_id(context), self.spec.planning_task
            return produced.offsets_of_all(produced.of_run(self.ledger, load, task))
        text = self.offsets if isinstance(self.offsets, str) else json.dumps(self.offsets)
        try:
            found = OffsetRanges.from_json(text)
            if not found:
                raise ValueError("there is none")
            return found
        except (ValueError, TypeError, AttributeError) as error:
            raise failed(
                ErrorCode.INVALID_PARAMETER,
                f"offsets {text[:100]!r} cannot be read: {error}. Fix: give pairs per partition, as "
                '{"0": [[0, 100]]}',
            ) from error

    def _load_id(self, context: Context) -> str:
        if not self.load:
            return load_id(self, context)
        # A backfill's run has several loads.
        return interval_plan.newest_load(self.ledger, self.load) or self.load

    def failure(self, outcome: Outcome, reason: str) -> AirflowFailException:
        if outcome is Outcome.PERMANENT:
            self.check_configured()
            reason = (
                f"{reason}; {self.log_excerpt()}. Fix: check and unpause {self.stream}_stream, or clear "
                "the step that starts the component"
            )
        return failed(ErrorCode.NOT_PUBLISHED, f"not {self.verb}, {outcome.value}: {reason}")
