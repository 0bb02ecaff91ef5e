"""Look whether a step of reconciliation has anything to do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sluice.airflow.triggers.idle.base import IdleTrigger, WorkNeeded
from sluice.maintenance.reconciliation.positions import reconcile_positions
from sluice.maintenance.reconciliation.unchanged import Unchanged

if TYPE_CHECKING:
    from sluice.airflow.hook import StreamClients


@dataclass(kw_only=True, eq=False, repr=False)
class PositionsTrigger(IdleTrigger):
    """Compares the positions of a stream's systems, and ends its task if they agree. That is few requests,
    whatever changed; what it finds, a worker finds again, and fails with it."""

    @property
    def sender(self) -> str:
        return f"{self.stream} reconciliation of positions"

    def look(self, clients: StreamClients) -> dict[str, Any]:
        marks = clients.marks_of(clients.platform_hook.ledger(self.stream))
        return reconcile_positions(clients.platform_hook, clients.spec, clients.tables, marks, self._now())

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.clock(), UTC)


@dataclass(kw_only=True, eq=False, repr=False)
class UnchangedTrigger(PositionsTrigger):
    """Ends its task if nothing changed since the last run of ``step`` that passed. A person's run looks at
    everything, and so does a task that is cleared or tried again."""

    step: str

    @property
    def sender(self) -> str:
        return f"{self.stream} reconciliation of {self.step}"

    def look(self, clients: StreamClients) -> dict[str, Any]:
        self._check_scheduled()
        hook, spec = clients.platform_hook, clients.spec
        again = timedelta(hours=spec.maintenance.reverify_hours)
        marks = clients.marks_of(hook.ledger(spec.name))
        unchanged = Unchanged(hook, spec, clients.tables, marks, again)
        reason, result = unchanged.reason(self.step, self._now())
        if reason:
            raise WorkNeeded(reason)
        return result

    def _check_scheduled(self) -> None:
        """Raises WorkNeeded, also if Airflow did not say of which run this is."""
        task: Any = self.task_instance
        context: dict[str, Any] = getattr(task, "get_template_context", dict)()
        run_type = getattr(context.get("dag_run"), "run_type", "unknown")
        if run_type != "scheduled":
            raise WorkNeeded(f"a run of type {getattr(run_type, 'value', run_type)}")
        if context.get("params", {}).get("full"):
            raise WorkNeeded("a full run")
        if task.try_number != 1:
            raise WorkNeeded("cleared, or tried again")
