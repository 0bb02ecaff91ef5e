"""The pod of a bounded Spark job, on a cluster without the Spark operator.

Its driver runs in client mode in the pod, as a component's does: one specification for both, and no JVM in
the task that only waits, as spark-submit's cluster mode would need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.providers.cncf.kubernetes.pod_generator import PodGenerator

from sluice.clients.kubernetes.pods import CONTAINER, MAX_PREFIX, dashed, pod_labels, pod_spec

if TYPE_CHECKING:
    from sluice.clients.kubernetes.pods import PodJob
    from sluice.config.platform_sections.kubernetes import Kubernetes

# The pod's name, to which the provider adds 9 characters.
MAX_NAME = MAX_PREFIX - 9
# Until its container runs: the cluster may have to add a node, and that to pull the image.
START_SECONDS = 600


def pod_name(job: PodJob) -> str:
    """Without what the provider adds."""
    return dashed(job.spec, job.job)[:MAX_NAME].rstrip("-")


def job_pod(task_id: str, job: PodJob, config: Kubernetes) -> KubernetesPodOperator:
    """What makes the pod, shows its log, and deletes it when it ended or the task is killed.

    A later attempt finds the pod that a lost one left running, by the labels of its task.
    """
    pod = {
        "metadata": {
            "name": pod_name(job),
            "namespace": config.namespace,
            "labels": pod_labels(job, config),
        },
        "spec": pod_spec(job, config),
    }
    return KubernetesPodOperator(
        task_id=task_id,
        full_pod_spec=PodGenerator.deserialize_model_dict(pod),
        base_container_name=CONTAINER,
        # The platform file alone says how to log in.
        kubernetes_conn_id=None,
        config_file=config.kubeconfig or None,
        in_cluster=not config.kubeconfig,
        # The end of the log, of which the failure's reason is taken.
        termination_message_policy="FallbackToLogsOnError",
        log_pod_spec_on_failure=False,
        startup_timeout_seconds=START_SECONDS,
        # The default, 5 s, is longer than a start with the image there.
        startup_check_interval_seconds=1,
        on_finish_action="delete_pod",
        durable=True,
        get_logs=True,
        do_xcom_push=False,
    )
