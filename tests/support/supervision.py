"""A stream under supervision without a stack: its process, its history, a task's context."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from sluice.airflow.hook import StreamClients
from sluice.clients.processes.base import Runtime
from sluice.config import streams
from sluice.core.errors import ClientError
from sluice.core.processes.status import ENDED, ProcessState, ProcessStatus
from sluice.core.tables.position import Position
from sluice.ledger.history import History
from sluice.supervision.rules.sample import Sample
from sluice.supervision.rules.status import Health, HealthReport
from tests.support.memory_s3 import MemoryS3
from tests.support.steps import NewTables

SPEC = streams.load("nyc_taxi")
T0 = datetime(2026, 1, 1, tzinfo=UTC)


class FakeRuntime(Runtime):
    """One program; each start moves ``since`` a second on. ``did``: what was asked, in order, with ``seen``'s
    answer at that moment; ``errors`` is raised by the next request."""

    def __init__(self, state: ProcessState = ProcessState.RUNNING, since: float = 1000.0) -> None:
        self.now = ProcessStatus(SPEC.program, state, 1, since, 0)
        self.did: list[Any] = []
        self.kept_stopped = 0
        self.errors: ClientError | None = None
        self.lines = ["Traceback", "LookupError: topic 't' has no partition"]
        self.seen: Any = lambda: None

    def status(self, program: str) -> ProcessStatus:
        self._check(program)
        return self.now

    def start(self, program: str) -> bool:
        self._check(program)
        self.did.append(("start", self.seen()))
        if self.now.is_alive:
            return False
        self.now = ProcessStatus(program, ProcessState.RUNNING, 2, (self.now.since or 0) + 1)
        return True

    def stop(self, program: str, grace: float, instance: str | None = None) -> ProcessStatus:
        self._check(program)
        if instance not in (None, self.now.identity):
            return self.now
        if self.now.state in ENDED:
            # As runtimes do that restart nothing; others see to it that it stays so.
            self.kept_stopped += 1
            return self.now
        self.did.append(("stop", grace, self.seen()))
        self.now = ProcessStatus(program, ProcessState.STOPPED, None, self.now.since, 0)
        return self.now

    def tail(self, program: str, size: int = 8192) -> list[str]:
        self._check(program)
        return self.lines

    def _check(self, program: str) -> None:
        assert program == SPEC.program
        if self.errors is not None:
            raise self.errors


def connect(trigger: Any, hook: Any) -> None:
    """Let each request of the trigger, and those after an abandoned one, use this hook's clients."""
    if not hasattr(hook, "report_check"):
        hook.report_check = lambda check: None

    def clients() -> StreamClients:
        made = StreamClients(trigger.stream, trigger.component)
        made.__dict__ |= {"platform_hook": hook, "tables": NewTables()}
        return made

    trigger.requests.connect = clients


def history() -> History:
    return History(MemoryS3().as_client(), "s3://warehouse/ledger", SPEC.name)


def events(kept: History, *kinds: str) -> list[dict[str, Any]]:
    """What the history holds of these kinds, in the order of time."""
    long_ago = datetime(1970, 1, 1, tzinfo=UTC)
    found = [event for kind in kinds for event in kept.since(kind, long_ago)]
    return sorted(found, key=lambda event: str(event["at"]))


def position(epoch: int = 3, end: int = 10, **more: Any) -> Position:
    return Position(epoch=epoch, at=1000.0, acquired_at=1000.0, starts={0: 0}, ends={0: end}, **more)


def sample(
    at: float = 1000.0,
    process: ProcessStatus | None = None,
    published: Position | None = None,
    end: int = 15,
    **more: Any,
) -> Sample:
    """A sample of a topic of one partition; by default 5 of 15 records wait."""
    values: dict[str, Any] = {
        "at": at,
        "process": process or ProcessStatus(SPEC.program, ProcessState.RUNNING, 1, 900.0),
        "topic_id": "t1",
        "begins": {0: 0},
        "ends": {0: end},
        "expiring": None,
        "published": position() if published is None else published,
        "errors": {},
    }
    return Sample(**(values | more))


def report(health: Health = Health.DOWN, **more: Any) -> HealthReport:
    values: dict[str, Any] = {"message": "so it is", "identity": "1000", "epoch": 3, "lag": 5}
    return HealthReport(health, **(values | more))


class Ti:
    """A task instance: ``xcoms`` of other tasks by their id; ``pushed`` is what this one left."""

    def __init__(self, xcoms: dict[str, Any]) -> None:
        self.id = "ti-1"
        self.try_number = 1
        self.xcoms = xcoms
        self.pushed: dict[str, Any] = {}

    def xcom_pull(self, task_ids: Any, **_: Any) -> Any:
        if isinstance(task_ids, str):
            return self.xcoms.get(task_ids)
        return [self.xcoms.get(task_id) for task_id in task_ids]

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value


def context(
    xcoms: dict[str, Any] | None = None,
    user: str | None = None,
    run: str = "run-1",
    at: datetime = T0,
    conf: dict[str, Any] | None = None,
    **params: Any,
) -> Any:
    """A task's context."""
    ti = Ti(xcoms or {})
    return {
        "ti": ti,
        "task_instance": ti,
        "run_id": run,
        "dag_run": SimpleNamespace(run_id=run, run_after=at, triggering_user_name=user, conf=conf),
        "params": {"action": "check", "component": "all", "reason": None, **params},
    }
