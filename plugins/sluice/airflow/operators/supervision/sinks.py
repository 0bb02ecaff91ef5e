"""Supervision of a stream's sinks: they are looked at with each check, and made by a worker if need be."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.empty import EmptyOperator

from sluice.airflow import callbacks
from sluice.airflow.operators.load.provision import ProvisionSinksOperator
from sluice.airflow.triggers.idle.base import LOOK_TIMEOUT, unlooked
from sluice.airflow.triggers.idle.sinks import SinksTrigger
from sluice.core.errors import ClientError
from sluice.ledger.keys import EXPORTED, history_name

if TYPE_CHECKING:
    from airflow.sdk import Context


class SuperviseSinksOperator(ProvisionSinksOperator):
    """Look in the triggerer whether each sink is as declared, and end there if so.

    Else, and if one could not be looked at, or no triggerer looked, a worker provisions them as a load does,
    and fails as that does. It also tells that they succeed again after a failure that was told. A ledger that
    cannot be written fails nothing here: each look costs a worker then.
    """

    does = "checks, without a worker, that each sink is as declared; else creates missing tables and topics"

    start_from_trigger = True
    waits: Sequence[timedelta] = (LOOK_TIMEOUT,)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_trigger_args = SinksTrigger(stream=self.stream, about=self.task_id).start("provision")

    def provision(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        self.log.info("%s", event["reason"])
        result: dict[str, Any] = self.execute(context)
        # No callback of the task, which would also run, in the DAG processor, after each look.
        callbacks.task_succeeded(context)
        try:
            self._record_export()
        except ClientError as error:
            # The sinks are as declared, and a person has heard of it: the next look costs a worker.
            self.log.warning("that connections are exported is not recorded: %s", error)
        return result

    def unanswered(self, context: Context, error: Exception) -> dict[str, Any]:
        """This worker is there already, so a triggerer that is gone costs a look and no more."""
        return self.provision(context, unlooked(error))

    def _record_export(self) -> None:
        """For the looks after, which may not see the Secret."""
        if self.platform_hook.platform.kubernetes is None:
            return
        named = {
            sink.connection for query in self.spec.queries.values() for sink in query.sinks if sink.connection
        }
        if named:
            history = self.platform_hook.history(history_name(self.stream, self.task_id))
            history.record_run(EXPORTED, {"connections": sorted(named)}, datetime.now(UTC))


class SinksProvisionedOperator(EmptyOperator):
    """A leaf beside the queries, which run whatever ``provision_sinks`` found: the run's state is that of its
    leaves. The scheduler decides it, so it costs no worker."""

    does = "nothing: with it the run fails if `provision_sinks` did, whatever `queries` finds"
    fails_if = "`provision_sinks` failed"

    def __init__(self, *, stream: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream
