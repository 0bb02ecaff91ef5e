"""Steps without a stack: what Airflow gives them, and their ledger."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from airflow.sdk.exceptions import TaskDeferred

from sluice.airflow.operators.load.validate import ValidateOperator
from sluice.ledger import run_documents
from sluice.ledger.documents import Ledger
from sluice.ledger.keys import beside_proof, run_key
from tests.support.memory_s3 import MemoryS3
from tests.support.verification import RowsVerification

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow.sdk import Context


class NewTables:
    """What the ledger knows of the tables of a fake ``lake``: nothing, and nothing is lost. ``noted``: what
    it was told of."""

    def __init__(self, lake: Any = None) -> None:
        self.lake, self.noted = lake, list[str]()

    def check(self, *names: str) -> None:
        pass

    def note(self, *names: str) -> None:
        self.noted += names

    accept = check

    def problem(self, name: str) -> None:
        return None


def new_tables(lake: Any) -> Any:
    return NewTables(lake)


def given(**values: Any) -> Context:
    """A task's context, of which a step needs these."""
    return cast("Context", values)


def triggered(days: float, kind: str = "manual") -> Any:
    """A run of Airflow that was triggered so many days from now."""
    return SimpleNamespace(run_type=kind, run_after=datetime.now(UTC) + timedelta(days=days))


class ValidateRows(ValidateOperator):
    """The validation of a table of which the tests make few columns."""

    verification = RowsVerification


def ledger(stream: str, memory: MemoryS3 | None = None) -> Ledger:
    """A stream's ledger in memory."""
    return Ledger((memory or MemoryS3()).as_client(), "s3://w/ledger", stream)


def sent(ledger: Ledger, source: dict[str, Any], ranges: dict[str, list[int]], run: str = "r") -> None:
    """A run whose only source was sent to these offsets, as task produce leaves it."""
    planned = {"start_offsets": {}, "main": {}, **source}
    before = {"verified_before": {"count": 0}, "reverted": []}
    ledger.put(run_key(run, "plan"), {"sources": [planned], **before})
    of_source = {source["source_id"]: {"ranges": ranges, "run_id": run}}
    ends = {partition: until for partition, (_, until) in ranges.items()}
    ledger.put(run_key(run, "produced"), {"sources": of_source, "end_offsets": ends})


def audited(ledger: Ledger, run: str = "r") -> None:
    """Beside the run's newest proof the other checks have passed."""
    for name in ("audit", "reconciliation"):
        ledger.put(beside_proof(run_documents.proof_key(ledger, run), name), {})


def carried_out(step: Any, context: Context, fire: Callable[[TaskDeferred], dict[str, Any]]) -> Any:
    """A step as Airflow carries it out: each time that it defers, ``fire`` gives the event."""
    method, arguments = "work", dict[str, Any]()
    while True:
        try:
            return getattr(step, method)(context, **arguments)
        except TaskDeferred as waits:
            method, arguments = waits.method_name, {"event": fire(waits), **(waits.kwargs or {})}
