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
    """Who wants it, why, since when, and in which run. ``requested``: by a person, so it counts as no restart
    of the platform's own."""

    who: str
    reason: str
    run: str
    requested: bool
    at: datetime

    def document(self) -> Document:
        return {"who": self.who, "reason": self.reason, "run": self.run, "requested": self.requested}


def request_from(context: Context, reason: str, requested: bool) -> Request:
    """The order that a run stands for: of whoever triggered it, or of the schedule."""
    run = context["dag_run"]
    return Request(
        who=run.triggering_user_name or PLATFORM,
        reason=reason,
        run=run.run_id,
        requested=requested,
        at=run.run_after,
    )


@dataclass(frozen=True)
class ActionResult:
    """What came of an order. ``done``: whether a process was started by it, ``at`` that moment (seconds since
    1970); ``message``: one line that says what was done, or why nothing was."""

    done: bool
    message: str
    at: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Lifecycle:
    """The process of one of a stream's parts, and the record of what is done to it. Errors are the clients'.

    ``history`` is the part's: the consumer's is the stream's own. Raises ConfigError for a part that the
    stream does not have.
    """

    def __init__(
        self, spec: StreamSpec, runtime: Runtime, history: History, component: str = "consumer"
    ) -> None:
        self.spec = spec
        self.component = spec.component(component)
        self.runtime = runtime
        self.history = history

    def restart(self, request: Request, assessed: HealthReport, kind: str = "restart") -> ActionResult:
        """Stop what is left of the instance that was ``assessed``, and start the component again.

        Nothing is done if another instance is there than the judged one, or a hold forbids it; a person's
        order releases the hold. Of two runs that restart the same instance at once, the second finds it
        stopped or replaced: the runtime stops only the instance that it is told, starts a process once,
        and the history counts an instance's restart once. ``kind``: of the event.
        """
        if request.requested:
            self.resume(request)
        process = self._status()
        refusal = self._refusal(request, process, assessed.identity or process.identity)
        return _nothing(refusal) if refusal else self._replace(kind, request, assessed, process)

    def start(self, request: Request, assessed: HealthReport) -> ActionResult:
        """Release the hold, and start the stream unless its process is there."""
        process = self._status()
        if process.is_alive:
            released = self.resume(request)
            return _nothing(f"{process.message()}{', and resumed' if released else ''}")
        return self.restart(request, assessed, kind="start")

    def suspend(self, request: Request) -> ActionResult:
        """Keep the stream stopped until it is released; end its process, gracefully first."""
        suspended = self.history.suspended()
        if suspended is None or suspended.get("run") != request.run:
            self.history.record("suspend", request.document(), datetime.now(UTC))
        process = self._status()
        if process.state in ENDED:
            return _nothing(f"{process.message()}, and held from now on")
        began = datetime.now(UTC)
        ended = self.runtime.stop(self.component.program, self.spec.supervision.shutdown_grace_seconds)
        now = datetime.now(UTC)
        self.history.record(
            "stop",
            request.document()
            | {
                "identity": process.identity,
                "exit_status": ended.exit_status,
                "seconds": round((now - began).total_seconds(), 1),
            },
            now,
        )
        return _nothing(f"{ended.message()}, and held from now on")

    def resume(self, request: Request) -> bool:
        """End the hold. False where there was none."""
        if self.history.suspended() is None:
            return False
        self.history.record("resume", request.document(), datetime.now(UTC))
        return True

    def _replace(
        self, kind: str, request: Request, assessed: HealthReport, process: ProcessStatus
    ) -> ActionResult:
        now = datetime.now(UTC)
        self.history.record(
            kind,
            request.document()
            | {
                "health": assessed.health.value,
                "message": assessed.message,
                "identity": process.identity,
                "epoch": assessed.epoch,
            },
            now,
        )
        if process.state not in ENDED:
            # What hangs does not end by itself; waiting for it would only cost time.
            grace = 0 if assessed.health is Health.STALLED else self.spec.supervision.shutdown_grace_seconds
            self.runtime.stop(self.component.program, grace, process.identity)
        suspended = None if request.requested else self.history.suspended()
        if suspended:
            # A stop takes up to a minute, in which a person may have decided otherwise.
            return _nothing(f"{process.message()}: held by {suspended.get('who')} since {suspended['at']}")
        started = self.runtime.start(self.component.program)
        how = "started anew" if started else "started anew by somebody else at the same moment"
        return ActionResult(True, f"{process.message()}: {how}", now.timestamp())

    def _refusal(self, request: Request, process: ProcessStatus, identity: str) -> str | None:
        """Why the process is to be left alone, or None."""
        if process.identity != identity and not request.requested:
            return f"{process.message()}: it was started anew after it was judged, so it is left alone"
        if request.requested:
            # A second click: the first one's restart is what it asked for. The runtime's own restart is not.
            asked_at = request.at.timestamp()
            recent = (
                process.is_alive and (process.since or 0) >= asked_at and not process.restarts_since(asked_at)
            )
            return f"{process.message()}: it was started after that was asked for" if recent else None
        suspended = self.history.suspended()
        return (
            f"{process.message()}: held by {suspended.get('who')} since {suspended['at']}"
            if suspended
            else None
        )

    def _status(self) -> ProcessStatus:
        return self.runtime.status(self.component.program)


def _nothing(message: str) -> ActionResult:
    return ActionResult(False, message, datetime.now(UTC).timestamp())
