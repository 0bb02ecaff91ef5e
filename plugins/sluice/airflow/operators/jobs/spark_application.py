"""The SparkApplication of a bounded Spark job, on a cluster with the Spark operator.

Not deferrable: a deferred task resumes in the operator that was deferred, and this one runs within a task
that plans before the job and checks after it. Each such task would have to be split in two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.cncf.kubernetes.operators.spark_kubernetes import SparkKubernetesOperator
from airflow.providers.cncf.kubernetes.utils.container import get_container_termination_message
from airflow.sdk.exceptions import AirflowException
from kubernetes.client import ApiException

from sluice.airflow.operators.jobs.job_pod import START_SECONDS, pod_name
from sluice.clients.kubernetes.spark_application import driver_name, job_application

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluice.clients.kubernetes.pods import PodJob
    from sluice.config.platform_sections.kubernetes import Kubernetes


class JobApplication(SparkKubernetesOperator):
    """The provider's operator, run within another task."""

    def execute_sync(self, context: Context) -> Any:
        """Run the application to its end. Not ``execute``, which Airflow keeps for tasks of their own."""
        self.name = self.create_job_name()
        try:
            self._setup_spark_configuration(context)
        except AirflowException as error:
            # The driver failed before the provider saw it run, which then knows no reason.
            reason = self._termination_message()
            self.launcher.delete_spark_job(self.name)
            raise AirflowException(f"{error}\n{reason}") from error
        return super().execute_sync(context)

    def process_pod_deletion(self, pod: Any, *, reraise: bool = True) -> bool:
        """By the resource. The provider's own takes every `-driver` out of the pod's name."""
        self.launcher.delete_spark_job(pod.metadata.name.removesuffix(driver_name("")))
        return True

    def _termination_message(self) -> str:
        try:
            pod = self.client.read_namespaced_pod(driver_name(str(self.name)), self.namespace)
        except ApiException as error:
            if error.status == 404:
                return ""  # it was never made
            raise
        return get_container_termination_message(pod, self.base_container_name) or ""


def job_application_operator(task_id: str, job: PodJob, config: Kubernetes) -> JobApplication:
    """What makes the resource, shows its driver's log, and deletes it when it ended or the task is killed.

    A later attempt finds the driver that a lost one left, by the labels of its task.
    """
    return JobApplication(
        task_id=task_id,
        template_spec={"spark": job_application(job, config, pod_name(job))},
        namespace=config.namespace,
        config_file=config.kubeconfig or None,
        in_cluster=not config.kubeconfig,
        # The platform file alone says how to log in; the provider's hook takes None.
        kubernetes_conn_id=None,  # type: ignore[arg-type]
        # The default, 5 s, is longer than a start with the image there.
        startup_check_interval_seconds=1,
        log_pod_spec_on_failure=False,
        startup_timeout_seconds=START_SECONDS,
        get_logs=True,
        delete_on_termination=True,
        reattach_on_restart=True,
        do_xcom_push=False,
    )
