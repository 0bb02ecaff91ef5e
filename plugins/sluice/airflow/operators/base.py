"""Bases of the tasks over a stream and over one of its components; and the one that only fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSensorTimeout, TaskDeferralError, TaskDeferralTimeout

from sluice.airflow.channel import form
from sluice.airflow.failures import failed, failed_attempt, final_failures, log_excerpt
from sluice.airflow.hook import StreamMixin
from sluice.airflow.triggers.wait import GRACE_INTERVALS
from sluice.config.tables import written_tables
from sluice.core.error_codes import ErrorCode, code_in
from sluice.core.errors import ClientError
from sluice.core.messages import iso
from sluice.core.processes.status import ENDED
from sluice.supervision.lifecycle import Lifecycle

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.exceptions import AirflowFailException

    from sluice.airflow.triggers.wait import PollTrigger
    from sluice.clients.s3.objects import Entry
    from sluice.config.stream import StreamSpec
    from sluice.core.processes.status import ProcessStatus

# A trigger ends itself at its deadline, with a reason; Airflow's timeout is for a triggerer that is gone.
BACKSTOP = timedelta(minutes=5)


# Runs whose id may be that of a deleted one: who triggers them chooses it.
TRIGGERED = ("manual", "operator_triggered", "asset_materialization")


def triggered_at(context: Context) -> datetime | None:
    """When a person or another DAG triggered the run; None of a run of a schedule, a backfill or an asset. A
    cleared run keeps it."""
    run = context.get("dag_run")
    return run.run_after if run is not None and getattr(run, "run_type", None) in TRIGGERED else None


class WaitMixin:
    """Makes a task that waits in the triggerer say what to do if its trigger did not end the wait."""

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        try:
            return super().resume_execution(next_method, next_kwargs, context)  # type: ignore[misc]
        # A sensor makes the third of the first.
        except (TaskDeferralTimeout, TaskDeferralError, AirflowSensorTimeout) as error:
            return self.unanswered(context, error)

    def unanswered(self, context: Context, error: Exception) -> Any:
        """What the task does after a wait that no trigger ended. Raises AirflowFailException if no triggerer
        was there, AirflowException if the trigger failed."""
        if isinstance(error, TaskDeferralError) and not isinstance(error, TaskDeferralTimeout):
            raise failed_attempt(
                ErrorCode.WAIT_FAILED,
                f"the trigger of this wait ended over an error ({error}). Fix: see the traceback in this "
                "task's log, then clear this task",
            ) from error
        waits: Sequence[timedelta] = getattr(self, "waits", ())
        # With several waits it is not known which one ended.
        within = f"{waits[0].total_seconds() / 60:g} minutes" if len(waits) == 1 else "its timeout"
        raise failed(
            ErrorCode.WAIT_FAILED,
            f"no triggerer ran this wait within {within} ({error}). Fix: start the triggerer (airflow "
            "triggerer), then clear this task",
        ) from error


class StepMixin(StreamMixin):
    """A step over ``stream``, done by :meth:`work` unless a table of ``checked`` is lost, emptied, replaced
    or forgotten: no step takes what is missing for what never was. ``checked`` is None for a step that a lost
    table does not mislead, or that itself says what was lost."""

    checked: Callable[[StreamSpec], Sequence[str]] | None = staticmethod(written_tables)

    def checked_work(self, context: Context) -> Any:
        """Raises AirflowFailException for what :meth:`work` raises, and for a table."""
        with final_failures():
            if self.checked is not None:
                self.tables.check(*self.checked(self.spec))
            return self.work(context)

    def work(self, context: Context) -> Any:
        """The step. Its result is the task's return value: small, and without secrets."""
        raise NotImplementedError(f"{type(self).__name__} has no work()")


class StreamOperator(WaitMixin, StepMixin, BaseOperator):
    """One step over ``stream`` in Airflow's worker."""

    template_fields: Sequence[str] = ("submitted",)
    # What a step submits is known when it runs, so Airflow stores "Rendered Templates" again at its end.
    overwrite_rtif_after_execution = True

    def __init__(self, *, stream: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        # Small and without secrets: names, an action, addresses of documents. Nothing reads it but the page.
        self.submitted: dict[str, str] = {"stream": stream}

    def execute(self, context: Context) -> Any:
        return self.checked_work(context)

    def wait_for(
        self,
        kind: type[PollTrigger],
        seconds: float,
        method: str,
        arguments: dict[str, Any] | None = None,
        **fields: Any,
    ) -> NoReturn:
        """Defer until a trigger with these ``fields`` fires; it ends itself after ``seconds``.

        ``arguments``: of ``method``, beside the event. The class names its longest waits in ``waits``.
        """
        deadline, timeout = time.time() + seconds, timedelta(seconds=seconds) + BACKSTOP
        trigger = kind(stream=self.stream, deadline=deadline, **fields)
        self.defer(trigger=trigger, method_name=method, kwargs=arguments, timeout=timeout)

    def entries(self, uri: str) -> list[Entry]:
        """Versions and delete markers of an object; what is there now, where a bucket cannot be listed."""
        from sluice.clients.s3.requests import split
        from sluice.clients.s3.unlisted import entries_by_head

        bucket, key = split(uri)
        if not self.platform_hook.platform.lake.bucket_lists:
            return entries_by_head(self.platform_hook.bucket(bucket), key)
        return [entry for entry in self.platform_hook.bucket(bucket).entries(key) if entry.key == key]


class ComponentOperator(StreamOperator):
    """One step over ``component`` of the stream. Raises ConfigError if the stream has no such component."""

    def __init__(self, *, component: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.component = component
        self.submitted["component"] = component

    @property
    def program(self) -> str:
        return self.spec.component(self.component).program

    @property
    def lifecycle(self) -> Lifecycle:
        return Lifecycle(
            self.spec,
            self.platform_hook.runtime,
            self.history,
            self.marks_of(self.history),
            self.component,
        )

    @property
    def grace(self) -> float:
        """Seconds that the component may be down: supervision needs as long to restart it."""
        return self.spec.supervision.interval_seconds * GRACE_INTERVALS

    def log_excerpt(self) -> str:
        return log_excerpt(self.platform_hook.runtime, self.program, self.log)

    def check_configured(self) -> None:
        """Raises AirflowFailException, with the cause first, if the process ended over its configuration: a
        retry, or another start, would end over it too. AirflowException if its login is refused."""
        try:
            process = self.platform_hook.runtime.status(self.program)
        except ClientError as error:
            # The caller fails for its own reason.
            self.log.warning("state of %s unknown: %s", self.program, error)
            return
        if process.is_misconfigured:
            raise self.misconfigured(process)
        if process.is_login_refused:
            raise failed_attempt(
                code_in(process.description) or ErrorCode.HEALTH_LOGIN_REFUSED,
                f"{process.message()}; {self.program} goes on by itself once that is corrected. Then clear "
                "this task",
            )

    def misconfigured(self, process: ProcessStatus) -> AirflowFailException:
        """The failure over a process that ended over its configuration."""
        cause = process.description
        return failed(
            code_in(cause) or ErrorCode.INVALID_CONFIGURATION,
            f"{cause}; so {self.program} ended. Fix: correct that, then trigger {self.stream}_stream with "
            f"action restart: {form(self.stream)}",
        )

    def ensure(self, run_id: str, process: ProcessStatus) -> bool:
        """Start the process for a load unless it runs; whether it was started. Raises AirflowFailException if
        it keeps ending and is left to a person: a load is none."""
        if process.state not in ENDED:
            return False
        restarts = self.history.restart_history(datetime.now(UTC), self.spec.supervision)
        if restarts.left_since is not None:
            since = iso(restarts.left_since)
            raise failed(
                ErrorCode.HEALTH_FLAPPING,
                f"the {self.component} of {self.stream} kept ending, and is left as it is since {since}; "
                f"{self.log_excerpt()}. Fix: repair the cause, then trigger {self.stream}_stream with action "
                f"restart: {form(self.stream)}",
            )
        return self.lifecycle.ensure(run_id, process)

    def check_not_suspended(self) -> None:
        """Raises AirflowFailException: a retry would find it suspended too."""
        suspended = self.history.suspended()
        if suspended is not None:
            raise failed(
                ErrorCode.SUSPENDED,
                f"the {self.component} of {self.stream} is suspended by {suspended.get('who')} since "
                f"{suspended['at']}: {suspended.get('reason') or 'no reason given'}. Fix: trigger "
                f"{self.stream}_stream with action start",
            )

    def wait_for(
        self,
        kind: type[PollTrigger],
        seconds: float,
        method: str,
        arguments: dict[str, Any] | None = None,
        **fields: Any,
    ) -> NoReturn:
        super().wait_for(kind, seconds, method, arguments, component=self.component, **fields)


class InvalidDeclarationOperator(StreamOperator):
    """Fail with the ``reason`` that was found when the DAG file was parsed."""

    does = "fails with what is wrong, and how to correct it"
    fails_if = "always: the DAG exists while something is wrong"

    # Its declaration, which names the tables, cannot be read.
    checked = None

    def __init__(self, *, reason: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reason = reason

    def work(self, context: Context) -> NoReturn:
        raise failed(ErrorCode.INVALID_CONFIGURATION, self.reason)
