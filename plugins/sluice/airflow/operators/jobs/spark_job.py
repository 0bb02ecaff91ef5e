"""A bounded Spark job as a step over a stream: by spark-submit, or on a Kubernetes cluster in a pod."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException

from sluice.airflow import connections
from sluice.airflow.failures import failed, failed_attempt
from sluice.airflow.operators.base import StepMixin
from sluice.clients.kubernetes.api import KubernetesApi
from sluice.clients.kubernetes.pods import SPARK_JOB, PodJob
from sluice.clients.processes.variables import environment_of, role_of, withheld
from sluice.config.stream import ENTRY_POINT
from sluice.core.error_codes import PERMANENT, ErrorCode, code_in
from sluice.core.errors import ClientError
from sluice.core.messages import failure_reason

if TYPE_CHECKING:
    from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
    from airflow.sdk import Context

    from sluice.config.platform_sections.kubernetes import Kubernetes


# The provider says so of a pod that found no node in time.
_NO_NODE = "took too long to be scheduled"


class SubmitHook(SparkSubmitHook):
    """The provider's hook, whose processes get ``environment_of`` the job's ``role``, not Airflow's."""

    role = ""

    @classmethod
    def like(cls, hook: SparkSubmitHook, role: str) -> SubmitHook:
        """With what the provider's operator gave its hook: it has no parameter for another class."""
        made = cls.__new__(cls)
        vars(made).update(vars(hook), role=role)
        return made

    def submit(self, application: str = "", **kwargs: Any) -> str | None:
        return super().submit(application, env=environment_of(self.role, os.environ), **kwargs)

    # The provider starts these two itself, with its own environment; they read no platform file.
    def _build_track_driver_status_command(self) -> list[str]:
        return _with_child_environment(super()._build_track_driver_status_command())

    def _build_spark_driver_kill_command(self) -> list[str]:
        return _with_child_environment(super()._build_spark_driver_kill_command())


def _with_child_environment(command: Sequence[str]) -> list[str]:
    return ["env", *(f"--unset={name}" for name in withheld("", os.environ)), *command]


class SparkJobOperator(StepMixin, SparkSubmitOperator):
    """Base: :meth:`work` prepares, and :meth:`submit` runs ``job`` of ``spark_jobs/__main__.py`` by the
    connection ``conn_id`` or, with [kubernetes] in the platform file, in a pod.

    ``durable`` is off: in cluster mode the provider would reuse the result of a job from before a *clear*,
    but the ledger decides what is left to do. argv has no secret: a job reads its own role's platform file.
    """

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "submitted")
    # The job's arguments and configuration are known at the submit, after Airflow has rendered the fields.
    overwrite_rtif_after_execution = True

    def __init__(self, *, stream: str, job: str, conn_id: str = "sluice_spark", **kwargs: Any) -> None:
        super().__init__(conn_id=conn_id, durable=False, name=f"sluice-{stream}-{job}", **kwargs)
        self.stream = stream
        self.job = job
        self.submitted: dict[str, str] = {"stream": stream, "job": job}
        self._pod: KubernetesPodOperator | None = None
        self._is_killed = False

    @property
    def cluster(self) -> Kubernetes | None:
        """Where the job runs in a pod."""
        return self.platform_hook.platform.kubernetes

    def execute(self, context: Context) -> Any:
        return self.checked_work(context)

    def submit(self, context: Context, options: Sequence[str]) -> None:
        """Run the job to its end. Raises with its log's reason, without retries if that is permanent."""
        cluster = self.cluster
        if cluster is None:
            # The provider takes an unknown connection for a YARN cluster.
            connections.get(self._conn_id)
        try:
            if cluster is None:
                self._submit(context, options)
            else:
                self._run_pod(context, options, cluster)
        # Its text is the end of the job's log, which the task's log has already (so `from None`). In cluster
        # deploy mode the provider raises RuntimeError for a driver that failed.
        except (AirflowException, RuntimeError) as error:
            reason = failure_reason(str(error).splitlines())
            if _NO_NODE in reason:
                reason += ". Fix: see the pod's events above; add nodes, or lower [cluster] in stream.toml"
            code = code_in(reason) or ErrorCode.PROCESS_FAILED
            fail = failed if code in PERMANENT else failed_attempt
            text = reason.removeprefix(code).lstrip()
            raise fail(code, f"the {self.job} of stream {self.stream!r} failed: {text}") from None

    def _submit(self, context: Context, options: Sequence[str]) -> None:
        self.application = str(ENTRY_POINT)
        self.application_args = [self.job, self.stream, *options]
        super().execute(context)

    def _run_pod(self, context: Context, options: Sequence[str], cluster: Kubernetes) -> None:
        # Half a second to import, and only on a cluster.
        from sluice.airflow.operators.jobs.job_pod import job_pod
        from sluice.airflow.operators.jobs.spark_application import job_application_operator
        from sluice.clients.processes.kubernetes import FIXES

        job = PodJob(self.spec, self.job, tuple(options), SPARK_JOB, self.conf or {})
        make, missing = job_pod, "none, if the pod was deleted: the next attempt makes another"
        if cluster.mode == "operator":
            make, missing = job_application_operator, f"install the Spark operator; {missing}"
        pod = self._pod = make(self.task_id, job, cluster)
        api = KubernetesApi(cluster.kubeconfig, "kubernetes", FIXES | {404: missing})
        try:
            # Not `execute`, which Airflow keeps for tasks of their own.
            api.ask(f"{cluster.namespace}/{self.name}", lambda: pod.execute_sync(context))
        except ClientError as error:
            raise failed_attempt(error.code, error) from error
        if self._is_killed:
            # The provider takes the end of a pod that it deleted itself for none.
            raise failed_attempt(
                ErrorCode.PROCESS_FAILED,
                f"the {self.job} of stream {self.stream!r} was ended with this task. Fix: none, the next "
                "attempt does what is left",
            )

    def _get_hook(self) -> SparkSubmitHook:
        return SubmitHook.like(super()._get_hook(), role_of(self.job))

    def on_kill(self) -> None:
        if self._pod is not None:
            self._is_killed = True
            self._pod.on_kill()
        # Before the submit the provider would search for a connection.
        if self._hook is not None:
            super().on_kill()
