"""What is done to a stream's process by order: it is restarted, started, or stopped and held.

Each act is recorded in the stream's history before it is done, and repeating an order does nothing twice.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sluice.model.health.consumer import Health, HealthReport
from sluice.model.health.sample import ENDED, ProcessStatus
from sluice.model.spec.ledger import Document

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.clients.ledger import History
    from sluice.model.spec.stream import StreamSpec
    from sluice.runtime.base import Runtime

PLATFORM = "schedule"


@dataclass(frozen=True)
class Request:
    """Who wants it, why, since when, and in which run. ``asked``: by a person, so it counts as no restart of
    the platform's own."""

    who: str
    why: str
    run: str
    asked: bool
    at: datetime

    def document(self) -> Document:
        return {"who": self.who, "why": self.why, "run": self.run, "asked": self.asked}


def request_from(context: Context, why: str, asked: bool) -> Request:
    """The order that a run stands for: of whoever triggered it, or of the schedule."""
    run = context["dag_run"]
    return Request(
        who=run.triggering_user_name or PLATFORM,
        why=why,
        run=run.run_id,
        asked=asked,
        at=run.run_after,
    )


@dataclass(frozen=True)
class ActionResult:
    """What came of an order. ``done``: whether a process was started by it, ``at`` that moment (seconds since
    1970); ``sentence``: one line that says what was done, or why nothing was."""

    done: bool
    sentence: str
    at: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Lifecycle:
    """The process of one of a stream's parts, and the record of what is done to it. Errors are the clients'.

    ``history`` is the part's: the consumer's is the stream's own. Raises ConfigError for a part that the
    stream does not have.
    """

    def __init__(self, spec: StreamSpec, runtime: Runtime, history: History, part: str = "consumer") -> None:
        self.spec = spec
        self.part = spec.part(part)
        self.runtime = runtime
        self.history = history

    def restart(self, order: Request, judged: HealthReport, kind: str = "restart") -> ActionResult:
        """Stop what is left of the instance that was ``judged``, and start the component again.

        Nothing is done if another instance is there than the judged one, or a hold forbids it; a person's
        order releases the hold. Of two runs that restart the same instance at once, the second finds it
        stopped or replaced: the runtime stops only the instance that it is told, starts a process once,
        and the history counts an instance's restart once. ``kind``: of the event.
        """
        if order.asked:
            self.release(order)
        process = self._status()
        refusal = self._refusal(order, process, judged.identity or process.identity)
        return _nothing(refusal) if refusal else self._replace(kind, order, judged, process)

    def start(self, order: Request, judged: HealthReport) -> ActionResult:
        """Release the hold, and start the stream unless its process is there."""
        process = self._status()
        if process.is_alive:
            released = self.release(order)
            return _nothing(f"{process.sentence()}{', and its hold is released' if released else ''}")
        return self.restart(order, judged, kind="start")

    def hold(self, order: Request) -> ActionResult:
        """Keep the stream stopped until it is released; end its process, gracefully first."""
        held = self.history.held()
        if held is None or held.get("run") != order.run:
            self.history.record("hold", order.document(), datetime.now(UTC))
        process = self._status()
        if process.state in ENDED:
            return _nothing(f"{process.sentence()}, and held from now on")
        began = datetime.now(UTC)
        ended = self.runtime.stop(self.part.program, self.spec.supervision.stop_seconds)
        now = datetime.now(UTC)
        self.history.record(
            "stop",
            order.document()
            | {
                "identity": process.identity,
                "exit_status": ended.exit_status,
                "seconds": round((now - began).total_seconds(), 1),
            },
            now,
        )
        return _nothing(f"{ended.sentence()}, and held from now on")

    def release(self, order: Request) -> bool:
        """End the hold. False where there was none."""
        if self.history.held() is None:
            return False
        self.history.record("release", order.document(), datetime.now(UTC))
        return True

    def _replace(
        self, kind: str, order: Request, judged: HealthReport, process: ProcessStatus
    ) -> ActionResult:
        now = datetime.now(UTC)
        self.history.record(
            kind,
            order.document()
            | {
                "verdict": judged.verdict.value,
                "sentence": judged.sentence,
                "identity": process.identity,
                "token": judged.token,
            },
            now,
        )
        if process.state not in ENDED:
            # What hangs does not end by itself; waiting for it would only cost time.
            grace = 0 if judged.verdict is Health.STALLED else self.spec.supervision.stop_seconds
            self.runtime.stop(self.part.program, grace, process.identity)
        held = None if order.asked else self.history.held()
        if held:
            # A stop takes up to a minute, in which a person may have decided otherwise.
            return _nothing(f"{process.sentence()}: held by {held.get('who')} since {held['at']}")
        started = self.runtime.start(self.part.program)
        how = "started anew" if started else "started anew by somebody else at the same moment"
        return ActionResult(True, f"{process.sentence()}: {how}", now.timestamp())

    def _refusal(self, order: Request, process: ProcessStatus, identity: str) -> str | None:
        """Why the process is to be left alone, or None."""
        if process.identity != identity and not order.asked:
            return f"{process.sentence()}: it was started anew after it was judged, so it is left alone"
        if order.asked:
            # A second click: the first one's restart is what it asked for. The runtime's own restart is not.
            asked_at = order.at.timestamp()
            recent = (
                process.is_alive and (process.since or 0) >= asked_at and not process.restarts_since(asked_at)
            )
            return f"{process.sentence()}: it was started after that was asked for" if recent else None
        held = self.history.held()
        return f"{process.sentence()}: held by {held.get('who')} since {held['at']}" if held else None

    def _status(self) -> ProcessStatus:
        return self.runtime.status(self.part.program)


def _nothing(sentence: str) -> ActionResult:
    return ActionResult(False, sentence, datetime.now(UTC).timestamp())
