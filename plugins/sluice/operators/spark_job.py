"""A bounded Spark job as a step over a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException

from sluice.hooks import connections
from sluice.hooks.failures import failed, failed_attempt, failure_reason
from sluice.hooks.platform import StreamMixin
from sluice.model.error_codes import PERMANENT, ErrorCode, code_in
from sluice.model.spec.stream import ENTRY_POINT

if TYPE_CHECKING:
    from airflow.sdk import Context


class SparkJobOperator(StreamMixin, SparkSubmitOperator):
    """Base: :meth:`submit` runs ``job`` of ``spark_jobs/__main__.py`` by the connection ``conn_id``.

    ``durable`` is off: in cluster mode the provider would reuse the result of a job from before a *clear*,
    but the ledger decides what is left to do. argv has no secret: a job reads its own role's platform file.
    """

    def __init__(self, *, stream: str, job: str, conn_id: str = "sluice_spark", **kwargs: Any) -> None:
        super().__init__(conn_id=conn_id, durable=False, name=f"sluice-{stream}-{job}", **kwargs)
        self.stream = stream
        self.job = job

    def submit(self, context: Context, options: Sequence[str]) -> None:
        """Run the job to its end. Raises with its log's reason, without retries if that is permanent."""
        # The provider takes an unknown connection for a YARN cluster.
        connections.get(self._conn_id)
        self.application = str(ENTRY_POINT)
        self.application_args = [self.job, self.stream, *options]
        try:
            super().execute(context)
        # In cluster deploy mode the provider raises RuntimeError for a driver that failed.
        except (AirflowException, RuntimeError) as error:
            reason = failure_reason(str(error).splitlines())
            code = code_in(reason) or ErrorCode.PROCESS_FAILED
            fail = failed if code in PERMANENT else failed_attempt
            text = reason.removeprefix(code).lstrip()
            raise fail(code, f"the {self.job} of stream {self.stream!r} failed: {text}") from error

    def on_kill(self) -> None:
        # Before the submit the provider would search for a connection.
        if self._hook is not None:
            super().on_kill()
