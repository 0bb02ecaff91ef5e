"""Supervision of a stream's other parts (producer, queries): looked at, restarted, listened for."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from sluice.clients.errors import ClientError
from sluice.hooks.failures import last_words
from sluice.hooks.lifecycle import Act, Lifecycle, order_of
from sluice.hooks.observation import record_verdict
from sluice.model.health import RESTARTABLE, Diagnosis, Facts, Verdict
from sluice.model.orders import Action
from sluice.model.samples import KAFKA, PROCESS
from sluice.model.tending import LOOK_SECONDS, LOOKS, QUIET, Look, tend
from sluice.operators.base import PartOperator
from sluice.runtime.asking import ask

if TYPE_CHECKING:
    from airflow.sdk import Context


HISTORY = "history"
POLL_SECONDS = 2.0
# It gave a heartbeat of its own; and it ended without one, or after it.
HEARD = frozenset({Verdict.HEALTHY, Verdict.IDLE, Verdict.CUT_OFF})
ENDED = frozenset({Verdict.DEAD, Verdict.FLAPPING})


class TendOperator(PartOperator):
    """See that ``part`` of the stream is alive and gives heartbeats; restart it where that mends it.

    Looks twice where the first look leaves doubt. What is dead or stalled is restarted, once for each end,
    whoever else wants to, and must give a heartbeat within the stream's ``start_seconds``. A person's order
    (params ``action`` and ``why``) is carried out here as for the consumer. Red: what could not be looked at,
    a source that does not answer, a part that keeps ending, a start that brought no heartbeat. The verdict is
    recorded in the part's own history where it changed, and returned.
    """

    def __init__(
        self,
        *,
        look_seconds: float = LOOK_SECONDS,
        recovery_seconds: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.look_seconds = look_seconds
        self._recovery_seconds = recovery_seconds
        self._earlier: Look | None = None

    @property
    def recovery_seconds(self) -> float:
        """For how long a part that was started is listened for: as long as a start may take."""
        return self._recovery_seconds or self.spec.supervision.start_seconds

    @property
    def lifecycle(self) -> Lifecycle:
        return Lifecycle(self.spec, self.platform_hook.runtime, self.history, self.part)

    def work(self, context: Context) -> dict[str, Any]:
        action = Action(context["params"]["action"])
        # A person's order is done in any case: one look is enough for it.
        diagnosis = self._observe(1 if action is not Action.SUPERVISE else LOOKS)
        self._record(diagnosis)
        if action is Action.SUPERVISE and diagnosis.verdict not in RESTARTABLE:
            self._refuse(diagnosis)
            return _result(diagnosis)
        act = self._act(context, action, diagnosis)
        self.log.info("%s", act.sentence)
        diagnosis = self._listen(context, act) if act.done else self._look()
        self._record(diagnosis)
        self._refuse(diagnosis, act)
        return _result(diagnosis, act)

    def _act(self, context: Context, action: Action, judged: Diagnosis) -> Act:
        asked = action is not Action.SUPERVISE
        order = order_of(context, (context["params"].get("why") or "") if asked else judged.sentence, asked)
        if action is Action.STOP:
            return self.lifecycle.hold(order)
        if action is Action.START:
            return self.lifecycle.start(order, judged)
        return self.lifecycle.restart(order, judged)

    def _observe(self, looks: int) -> Diagnosis:
        """The diagnosis of one look, or of the last of so many where doubt is left."""
        for number in range(looks):
            if number:
                time.sleep(self.look_seconds)
            diagnosis = self._look()
            if diagnosis.conclusive:
                break
        return diagnosis

    def _look(self) -> Diagnosis:
        """One look; what does not answer is in the diagnosis."""
        trouble: dict[str, str] = {}
        facts = ask(HISTORY, trouble, lambda: self.history.facts(datetime.now(UTC), self.spec.supervision))
        process = ask(PROCESS, trouble, lambda: self.platform_hook.runtime.status(self.program))
        beat = ask(
            KAFKA,
            trouble,
            lambda: self.platform_hook.kafka.beat(self.stream, self.part, self.spec.topic.name),
        )
        diagnosis = tend(
            process,
            beat,
            time.time(),
            self.spec.supervision,
            facts or Facts(),
            trouble=trouble,
            earlier=self._earlier,
        )
        self._earlier = None if process is None or trouble else Look(process, beat)
        self.log.info("%s: %s", diagnosis.verdict.value, diagnosis.sentence)
        return diagnosis

    def _listen(self, context: Context, act: Act) -> Diagnosis:
        """Wait for a heartbeat of what was started. Raises where none came in time."""
        until = time.monotonic() + self.recovery_seconds
        while True:
            diagnosis = self._look()
            if diagnosis.verdict in ENDED:
                # Perhaps because another one is at work: only a second look shows that.
                time.sleep(self.look_seconds)
                diagnosis = self._look()
            if diagnosis.verdict in HEARD:
                break
            if diagnosis.verdict in QUIET and diagnosis.verdict is not Verdict.STARTING:
                return diagnosis
            if diagnosis.verdict in ENDED or time.monotonic() >= until:
                self._record(diagnosis)
                words = last_words(self.platform_hook.runtime, self.program, self.log)
                raise AirflowFailException(
                    f"{self.program} was started, and no heartbeat came within "
                    f"{self.recovery_seconds:g} s: {diagnosis.sentence}; {words}"
                )
            time.sleep(POLL_SECONDS)
        now = datetime.now(UTC)
        seconds = round(now.timestamp() - act.at, 1)
        document = {"seconds": seconds, "how": diagnosis.sentence, "run": context["run_id"]}
        self.history.record("recovered", document, now)
        self.log.info("a heartbeat came %.1f s after the decision", seconds)
        return diagnosis

    def _record(self, diagnosis: Diagnosis) -> None:
        try:
            before = record_verdict(self.history, diagnosis)
        except ClientError as error:
            # The verdict is the task's result all the same; the next run finds that it is not recorded.
            self.log.warning("the verdict is not in the part's history: %s", error)
            return
        if before != diagnosis.verdict.value:
            self.log.info("it was %s before", before or "never judged")

    def _refuse(self, diagnosis: Diagnosis, act: Act | None = None) -> None:
        """Red for what nobody may overlook."""
        if diagnosis.verdict in QUIET:
            return
        more = f"; {act.sentence}" if act else ""
        if diagnosis.verdict is Verdict.FLAPPING:
            more += f"; look at its log, mend it, and trigger {self.stream}_stream with action restart"
        raise AirflowFailException(
            f"the {self.part} of {self.stream} is {diagnosis.verdict.value}: {diagnosis.sentence}{more}"
        )


def _result(diagnosis: Diagnosis, act: Act | None = None) -> dict[str, Any]:
    return {"diagnosis": diagnosis.to_json(), "act": act.to_json() if act else None}
