"""A Spark job as a SparkApplication, which the Spark operator submits in cluster mode.

Its driver pod is the one of a Job (``pods``), from a pod template: the operator needs no webhook for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluice.clients.kubernetes.jobs import job_name
from sluice.clients.kubernetes.pods import (
    EXECUTOR,
    ROLE_LABEL,
    SPARK_CONF,
    SUBMIT_ARGS,
    PodJob,
    executor_template,
    overhead_mb,
    pod_labels,
    pod_spec,
    submit_args,
)
from sluice.config.platform_sections.kubernetes import Kubernetes
from sluice.config.stream import Component, StreamSpec
from sluice.core.processes import exits

GROUP, VERSION, PLURAL = "sparkoperator.k8s.io", "v1beta2", "sparkapplications"
KIND = "SparkApplication"
# The version of the pinned pyspark.
SPARK_VERSION = "4.0.2"
MAIN_FILE = "local:///opt/sluice/app/spark_jobs/__main__.py"
# Names that the operator and Spark expect in the templates.
DRIVER_CONTAINER, EXECUTOR_CONTAINER = "spark-kubernetes-driver", "spark-kubernetes-executor"
TERMINATION_LOG = "/dev/termination-log"
# Supervision counts restarts. The operator waits this many seconds, times its submissions so far, from one
# submission to the next.
RETRIES, RETRY_SECONDS = 2_147_483_647, 10
ON_FAILURE = {
    "type": "OnFailure",
    "onFailureRetries": RETRIES,
    "onFailureRetryInterval": RETRY_SECONDS,
    "onSubmissionFailureRetries": RETRIES,
    "onSubmissionFailureRetryInterval": RETRY_SECONDS,
}
# How long a bounded job is kept whose task was lost: until then another attempt finds how it ended.
JOB_SECONDS = 86_400
Resource = dict[str, Any]


def driver_name(application: str) -> str:
    """The operator's name for the pod."""
    return f"{application}-driver"


def component_application(spec: StreamSpec, component: Component, config: Kubernetes) -> Resource:
    """The resource that keeps ``component`` running. Its name is that of the Job in mode native.

    The operator restarts what failed. It knows no exit codes, so one of exits.BY_MESSAGE comes as a message.
    """
    variables = {exits.TERMINATION_LOG: TERMINATION_LOG}
    resource = _application(PodJob(spec, component.name), config, job_name(component, spec), variables)
    resource["spec"]["restartPolicy"] = dict(ON_FAILURE)
    return resource


def job_application(job: PodJob, config: Kubernetes, name: str) -> Resource:
    """Build a bounded job: it ends with its driver's exit code, and the task retries it."""
    resource = _application(job, config, name, {})
    resource["spec"] |= {"restartPolicy": {"type": "Never"}, "timeToLiveSeconds": JOB_SECONDS}
    return resource


def _application(job: PodJob, config: Kubernetes, name: str, variables: Mapping[str, str]) -> Resource:
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        # Both pods get the labels of the resource.
        "metadata": {"name": name, "namespace": config.namespace, "labels": pod_labels(job, config)},
        "spec": {
            "type": "Python",
            "mode": "cluster",
            "sparkVersion": SPARK_VERSION,
            "image": config.image,
            "imagePullPolicy": "IfNotPresent",
            "mainApplicationFile": MAIN_FILE,
            "arguments": [job.job, job.spec.name, *job.options],
            "sparkConf": {**job.conf, **(SPARK_CONF if job.spec.cluster.executors else {})},
            "driver": _driver(job, config, variables),
            "executor": _executor(job, config),
        },
    }


def _driver(job: PodJob, config: Kubernetes, variables: Mapping[str, str]) -> Resource:
    cluster = job.spec.cluster
    spec = pod_spec(job, config)
    (container,) = spec["containers"]
    # Spark sets them, of the fields below and the resource's image.
    for name in ("image", "imagePullPolicy", "args", "resources"):
        del container[name]
    container["name"] = DRIVER_CONTAINER
    container["env"] = [one for one in container["env"] if one["name"] != SUBMIT_ARGS]
    values = {**variables, SUBMIT_ARGS: submit_args(_settings(job))}
    container["env"] += [{"name": name, "value": value} for name, value in values.items()]
    return {
        "cores": cluster.driver_cores,
        "coreRequest": cluster.driver_requests,
        "coreLimit": str(cluster.driver_cores),
        "memory": cluster.driver_memory,
        "memoryOverhead": f"{overhead_mb(cluster.driver_memory)}m",
        "template": {"spec": spec},
    }


def _settings(job: PodJob) -> dict[str, str]:
    """What the driver's own command line says against the operator's submission."""
    cluster = job.spec.cluster
    # The pod's own address: executors would have to ask the DNS for its Service's.
    address = {"spark.driver.host": "$(POD_IP)", "spark.driver.bindAddress": "$(POD_IP)"}
    return address if cluster.executors else address | {"spark.master": f"local[{cluster.driver_cores}]"}


def _executor(job: PodJob, config: Kubernetes) -> Resource:
    cluster = job.spec.cluster
    template = executor_template(job.role, EXECUTOR_CONTAINER, config.identity(job.role))
    return {
        # The resource cannot say 0. Without executors the driver's master is local, and asks for none.
        "instances": max(cluster.executors, 1),
        "cores": cluster.executor_cores,
        "coreRequest": cluster.executor_requests,
        "coreLimit": str(cluster.executor_cores),
        "memory": cluster.executor_memory,
        "memoryOverhead": f"{overhead_mb(cluster.executor_memory)}m",
        "labels": {ROLE_LABEL: EXECUTOR},
        "template": {"spec": template["spec"]},
    }
