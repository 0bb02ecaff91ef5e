"""Restart, start and suspend a stream's process.

Each action is recorded in the component's history before it is done, and repeating it does nothing twice.
Nothing is done unasked while the history lacks the newest suspension or resumption that is known of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sluice.core.error_codes import ErrorCode
from sluice.core.errors import Refused
from sluice.core.json_record import Document
from sluice.core.processes.status import ENDED, ProcessStatus
from sluice.ledger.marks import REQUESTS, LedgerMarks
from sluice.supervision.rules.status import Health, HealthReport

if TYPE_CHECKING:
    from sluice.clients.processes.base import Runtime
    from sluice.config.stream import StreamSpec
    from sluice.ledger.history import History


# The param ``component`` of a run for every component.
ALL = "all"


class Action(StrEnum):
    """The param ``action`` of a ``<stream>_stream`` DAG."""

    CHECK = "check"
    RESTART = "restart"
    STOP = "stop"
    START = "start"


def action_for(params: Mapping[str, Any], component: str) -> Action:
    """The action of a run with these params for ``component``; requests may be for another one."""
    is_meant = params.get("component", ALL) in (ALL, component)
    return Action(params.get("action", Action.CHECK)) if is_meant else Action.CHECK


@dataclass(frozen=True)
class Request:
    """A request for an action. ``who``: Airflow's user, or the schedule; ``reason``: as text; ``run``: its
    run id, due ``at``. ``requested``: by a person, so it does not count as an automatic restart."""

    who: str
    reason: str
    run: str
    requested: bool
    at: datetime

    def document(self) -> Document:
        return {"who": self.who, "reason": self.reason, "run": self.run, "requested": self.requested}


@dataclass(frozen=True)
class ActionResult:
    """``done``: whether a process was started; ``at``: when (seconds since 1970); ``message``: one line."""

    done: bool
    message: str
    at: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Lifecycle:
    """Actions on the process of one component, recorded in its ``history``; ``marks``: of that history.
    Errors are the clients'.

    Raises ConfigError if the stream has no such component.
    """

    def __init__(
        self,
        spec: StreamSpec,
        runtime: Runtime,
        history: History,
        marks: LedgerMarks,
        component: str = "consumer",
    ) -> None:
        self.spec = spec
        self.component = spec.component(component)
        self.runtime = runtime
        self.history = history
        self.marks = marks

    def ensure(self, run: str, process: ProcessStatus) -> bool:
        """Start the process for load ``run`` unless it runs (as ``process`` says). False if it was not
        started by this call."""
        if process.state not in ENDED:
            return False
        self._check_requests()
        if not self.runtime.start(self.component.program):
            return False
        document = {"who": f"load {run}", "reason": process.message(), "run": run, "requested": True}
        self.history.record("start", document, datetime.now(UTC))
        return True

    def restart(self, request: Request, assessed: HealthReport, kind: str = "restart") -> ActionResult:
        """Stop the instance that was ``assessed`` if it still runs, and start the component again.

        Nothing is done if it was replaced since, or is suspended; a person's request resumes it. If two
        runs are concurrent, the second finds the instance stopped or replaced: the runtime stops only the
        given instance, starts a process once, and the history counts an instance's restart once.
        ``kind``: of the event.
        """
        if request.requested:
            self.resume(request)
        else:
            self._check_requests()
        process = self._status()
        refusal = self._refusal(request, process, assessed.identity or process.identity)
        return _nothing(refusal) if refusal else self._replace(kind, request, assessed, process)

    def start(self, request: Request, assessed: HealthReport) -> ActionResult:
        """Resume the component, and start it unless it runs."""
        process = self._status()
        if process.is_alive:
            resumed = self.resume(request)
            return _nothing(f"{process.message()}{', resumed' if resumed else ''}")
        return self.restart(request, assessed, kind="start")

    def suspend(self, request: Request) -> ActionResult:
        """Stop the process, gracefully first, and keep it stopped until it is resumed."""
        suspended = self.history.suspended()
        if suspended is None or suspended.get("run") != request.run:
            self.history.record("suspend", request.document(), datetime.now(UTC))
            self._mark()
        return self.stop(request)

    def stop(self, request: Request) -> ActionResult:
        """Stop the process of a suspended component: also if something else has started it since."""
        if not request.requested:
            self._check_requests()
        process, began = self._status(), datetime.now(UTC)
        # Also one that has ended: its runtime may restart it later.
        ended = self.runtime.stop(self.component.program, self.spec.supervision.shutdown_grace_seconds)
        if process.state not in ENDED:
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
        return _nothing(f"{ended.message()}, suspended")

    def resume(self, request: Request) -> bool:
        """End the suspension; False if there was none. Restarts and rejected records before it do not count
        any more."""
        was_suspended = self.history.suspended() is not None
        self.history.record("resume", request.document(), datetime.now(UTC))
        self._mark()
        return was_suspended

    def _mark(self) -> None:
        """A person's request decides, whatever is lost of those before; the newest of all."""
        found = [one for kind in ("suspend", "resume") for one in self.history.newest_keys(kind, 1)]
        for key, _ in sorted(found, key=lambda one: one[1])[-1:]:
            self.marks.replace(REQUESTS, key)

    def _check_requests(self) -> None:
        """Raises Refused if the newest suspension or resumption is lost: it is not known which it was."""
        lost = self.marks.lost(REQUESTS)
        if lost is not None:
            raise Refused(
                f"the ledger does not have {lost} any more: it was restored to an earlier state. So it is "
                f"not known whether the {self.component.name} of {self.spec.name} is suspended. Nothing was "
                f"started or stopped. Fix: trigger {self.spec.name}_stream with action start or stop "
                "(docs/operating.md, Ledger lost)",
                ErrorCode.DOCUMENT_NOT_FOUND,
            )

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
            # A stuck process does not end gracefully, and a lost node hears of no stop.
            is_stuck = assessed.health in (Health.STALLED, Health.NODE_LOST)
            grace = 0 if is_stuck else self.spec.supervision.shutdown_grace_seconds
            self.runtime.stop(self.component.program, grace, process.identity)
        # A stop takes up to a minute, in which a person may have suspended it.
        if not request.requested and (suspended := self._suspended(process)):
            return _nothing(suspended)
        started = self.runtime.start(self.component.program)
        result = "restarted" if started else "already restarted by a concurrent run"
        return ActionResult(True, f"{process.message()}: {result}", now.timestamp())

    def _refusal(self, request: Request, process: ProcessStatus, identity: str) -> str | None:
        if not request.requested:
            if process.identity != identity:
                return f"{process.message()}: replaced since the check; not restarted"
            return self._suspended(process)
        # A repeated click: the first one's restart is what it asked for. The runtime's own restart is not.
        at = request.at.timestamp()
        is_recent = process.is_alive and (process.since or 0) >= at and not process.restarts_since(at)
        return f"{process.message()}: started since the request" if is_recent else None

    def _suspended(self, process: ProcessStatus) -> str | None:
        event = self.history.suspended()
        if event is None:
            return None
        return f"{process.message()}: suspended by {event.get('who')} since {event['at']}"

    def _status(self) -> ProcessStatus:
        return self.runtime.status(self.component.program)


def _nothing(message: str) -> ActionResult:
    return ActionResult(False, message, datetime.now(UTC).timestamp())
