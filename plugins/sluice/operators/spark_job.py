"""A bounded Spark job as a step over a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException

from sluice.hooks.failures import failed, failed_attempt, failure_reason, is_permanent
from sluice.hooks.platform import StreamMixin
from sluice.model.error_codes import ErrorCode, code_in
from sluice.model.spec.stream import ENTRY_POINT

if TYPE_CHECKING:
    from airflow.sdk import Context


class SparkJobOperator(StreamMixin, SparkSubmitOperator):
    """The frame: :meth:`submit` runs ``job`` of ``spark_jobs/__main__.py`` by the connection ``conn_id``.

    ``durable`` is off: in cluster mode the provider would take a job that ended before a *clear* for the
    answer, and whether something is to be done is for the ledger to say. No secret is in argv: a job reads
    the platform file of its own role.
    """

    def __init__(self, *, stream: str, job: str, conn_id: str = "sluice_spark", **kwargs: Any) -> None:
        super().__init__(conn_id=conn_id, durable=False, name=f"sluice-{stream}-{job}", **kwargs)
        self.stream = stream
        self.job = job

    def submit(self, context: Context, options: Sequence[str]) -> None:
        """Run it to its end. Raises with the line that says why it failed; without retries where the next
        attempt would find that unchanged."""
        self._check_connection()
        self.application = str(ENTRY_POINT)
        self.application_args = [self.job, self.stream, *options]
        try:
            self.run_job(context)
        except AirflowException as error:
            reason = failure_reason(str(error).splitlines())
            code = code_in(reason) or ErrorCode.PROCESS_FAILED
            fail = failed if is_permanent(reason) else failed_attempt
            text = reason.removeprefix(code).lstrip()
            raise fail(code, f"the {self.job} of stream {self.stream!r} failed: {text}") from error

    def run_job(self, context: Context) -> None:
        """Give it to Spark, and wait for its end. Raises AirflowException with its output where it failed."""
        super().execute(context)

    def _check_connection(self) -> None:
        """The provider takes an unknown connection for a YARN cluster; here it is an error."""
        try:
            BaseHook.get_connection(self._conn_id)
        except AirflowNotFoundException as error:
            raise failed(
                ErrorCode.CONNECTION_NOT_FOUND,
                f"connection {self._conn_id!r} does not exist, so there is no Spark to submit to; add it in "
                f"Airflow under Admin, or set AIRFLOW_CONN_{self._conn_id.upper()}",
            ) from error

    def on_kill(self) -> None:
        # Before the job is submitted there is nothing to kill, and the provider would look for a connection.
        if self._hook is not None:
            super().on_kill()
