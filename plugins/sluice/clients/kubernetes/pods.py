"""The pod of a job: a component of a stream, or a bounded job that Airflow runs.

Its driver runs in client mode in the pod itself, and asks Kubernetes for executors. Every container satisfies
PodSecurity's profile ``restricted``, with a read-only root file system.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from sluice.clients.kubernetes.identities import HOME, Volume
from sluice.clients.kubernetes.identities import volumes as identity_volumes
from sluice.clients.processes.variables import role_of
from sluice.config.platform_sections.kubernetes import NO_IDENTITY, Identity, Kubernetes
from sluice.config.sections.cluster import (
    TEMPLATE_VARIABLE,
    WRITTEN_TEMPLATE,
    container_mb,
    memory_mb,
)
from sluice.config.stream import SourceType, StreamSpec

# Drivers run as this account: it may manage the pods of its executors.
SERVICE_ACCOUNT = "sluice-spark"
# The user of the project's images.
USER = 10001
PLATFORM, CONNECTIONS = f"{HOME}/platform", f"{HOME}/connections"
SCRATCH, TMP = f"{HOME}/tmp", "/tmp"  # noqa: S108
OVERRIDES = "/etc/sluice/overrides/overrides.toml"
# Templates of executors, by role: the image has them, from `executor_template`.
TEMPLATES = f"{HOME}/conf/spark"
# Secret with the exported Airflow connections of JDBC sinks, `<connection>.toml` each.
CONNECTIONS_SECRET = "sluice-connections"  # noqa: S105 - its name
# In the Secret of a role too: the key by which its drivers and executors know each other.
SPARK_SECRET = "spark.secret"  # noqa: S105 - a file's name
CONTAINER = "job"
STREAM_LABEL, COMPONENT_LABEL = "sluice.io/stream", "sluice.io/component"
ROLE_LABEL = "app.kubernetes.io/component"
PART_OF = {"app.kubernetes.io/part-of": "sluice"}
# Values of ROLE_LABEL.
STREAM, SPARK_JOB, EXECUTOR = "stream", "spark-job", "spark-executor"
# Spark takes so many characters for the prefix of its executors' names, which is their driver's.
MAX_PREFIX = 47
# Seconds until a pod leaves a node that does not answer; Kubernetes' default is 300.
NODE_SECONDS = 30
API_SERVER = "k8s://https://kubernetes.default.svc:443"
# Spark's, of a driver with executors, in both modes.
SPARK_CONF = {
    "spark.authenticate": "true",
    "spark.authenticate.secret.file": f"{PLATFORM}/{SPARK_SECRET}",
    "spark.network.crypto.enabled": "true",
    # The image has Spark's configuration.
    "spark.kubernetes.executor.disableConfigMap": "true",
    # Nothing of the kind is left behind, and asking for it takes more rights.
    "spark.kubernetes.driver.service.deleteOnTermination": "false",
    "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
    "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
}
# Read by PySpark when it starts its JVM.
SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"
# Resources of a process without a JVM: a feed's producer.
_SMALL = {"cpu": "100m", "memory": "256Mi"}


@dataclass(frozen=True)
class PodJob:
    """``job`` of ``spark_jobs/__main__.py`` for stream ``spec``, with its further ``options``.

    ``label``: its value of ROLE_LABEL. ``conf``: further configuration of Spark; no value has a space.
    """

    spec: StreamSpec
    job: str
    options: tuple[str, ...] = ()
    label: str = STREAM
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def role(self) -> str:
        return role_of(self.job)

    @property
    def has_jvm(self) -> bool:
        return not (self.job == "producer" and self.spec.source is SourceType.FEED)

    @property
    def labels(self) -> dict[str, str]:
        return {
            **PART_OF,
            ROLE_LABEL: self.label,
            STREAM_LABEL: self.spec.name,
            COMPONENT_LABEL: self.job,
        }


def dashed(spec: StreamSpec, part: str) -> str:
    """A name that Kubernetes takes: names of streams have no dash, of their parts neither."""
    return f"{spec.name.replace('_', '-')}-{part}"


def platform_secret(role: str) -> str:
    """The Secret with the platform file of a role, ``<role>.toml``."""
    return f"sluice-platform-{role}"


def pod_spec(job: PodJob, config: Kubernetes) -> dict[str, Any]:
    """The ``spec`` of its pod. Ends within the stream's ``shutdown_grace_seconds`` after SIGTERM."""
    identity = config.identity(job.role)
    # Only queries write to databases.
    volumes = _volumes(job.role, connections=job.job == "queries", identity=identity)
    if config.overrides:
        overrides = {"name": "overrides", "configMap": {"name": config.overrides}}
        volumes.append((overrides, {"mountPath": str(PurePosixPath(OVERRIDES).parent), "readOnly": True}))
    return {
        "serviceAccountName": identity.service_account or SERVICE_ACCOUNT,
        # Only a driver with executors speaks to the API server.
        "automountServiceAccountToken": job.has_jvm and job.spec.cluster.executors > 0,
        "terminationGracePeriodSeconds": job.spec.supervision.shutdown_grace_seconds,
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{taint}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": NODE_SECONDS,
            }
            for taint in ("not-ready", "unreachable")
        ],
        **_pod(_container(job, config), volumes),
    }


def pod_labels(job: PodJob, config: Kubernetes) -> dict[str, str]:
    """Those of its pod, with what the role's identity has."""
    return {**config.identity(job.role).labels, **job.labels}


def executor_template(
    role: str, container: str = EXECUTOR, identity: Identity = NO_IDENTITY
) -> dict[str, Any]:
    """What Spark takes the pods of a job's executors from; the rest is ``settings``."""
    pod = _pod({"name": container}, _volumes(role, connections=False, identity=identity))
    account = identity.service_account or SERVICE_ACCOUNT
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        # An executor asks Kubernetes for nothing.
        "spec": {"serviceAccountName": account, "automountServiceAccountToken": False, **pod},
    }


def _pod(container: Mapping[str, Any], volumes: Sequence[Volume]) -> dict[str, Any]:
    """What every pod has."""
    return {
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                **container,
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [{"name": volume["name"], **mount} for volume, mount in volumes],
            }
        ],
        "volumes": [volume for volume, _ in volumes],
    }


def _volumes(role: str, connections: bool, identity: Identity) -> list[Volume]:
    platform = {"secretName": platform_secret(role), "defaultMode": 0o440}
    volumes: list[Volume] = [
        ({"name": "platform", "secret": platform}, {"mountPath": PLATFORM, "readOnly": True}),
        ({"name": "scratch", "emptyDir": {}}, {"mountPath": SCRATCH}),
        ({"name": "tmp", "emptyDir": {}}, {"mountPath": TMP}),
    ]
    if connections:
        secret = {"secretName": CONNECTIONS_SECRET, "defaultMode": 0o440, "optional": True}
        mount = {"mountPath": CONNECTIONS, "readOnly": True}
        volumes.append(({"name": "connections", "secret": secret}, mount))
    return [*volumes, *identity_volumes(identity)]


def _container(job: PodJob, config: Kubernetes) -> dict[str, Any]:
    cluster = job.spec.cluster
    limit = {"memory": f"{container_mb(cluster.driver_memory)}Mi"}
    resources = (
        {
            "requests": {"cpu": cluster.driver_requests, **limit},
            "limits": {"cpu": str(cluster.driver_cores), **limit},
        }
        if job.has_jvm
        else {"requests": _SMALL, "limits": {"cpu": "1", "memory": _SMALL["memory"]}}
    )
    return {
        "name": CONTAINER,
        "image": config.image,
        "imagePullPolicy": "IfNotPresent",
        # The image's entry point sets the environment.
        "args": ["python", "-m", "spark_jobs", job.job, job.spec.name, *job.options],
        "env": _environment(job, config),
        "resources": resources,
        # The end of its log, for a pod that is gone when it is asked for.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _environment(job: PodJob, config: Kubernetes) -> list[dict[str, Any]]:
    fields = {"POD_NAME": "metadata.name", "POD_IP": "status.podIP"}
    variables: list[dict[str, Any]] = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()
    ]
    if config.overrides:
        variables.append({"name": "SLUICE_STREAM_OVERRIDES", "value": OVERRIDES})
    if job.has_jvm:
        variables.append({"name": SUBMIT_ARGS, "value": submit_args(settings(job, config))})
    identity = config.identity(job.role)
    if identity != NO_IDENTITY and job.has_jvm and job.spec.cluster.executors and config.mode == "native":
        # It names Secrets, and has none.
        template = json.dumps(executor_template(job.role, identity=identity))
        variables.append({"name": TEMPLATE_VARIABLE, "value": template})
    return variables


def submit_args(conf: Mapping[str, str]) -> str:
    """The value of SUBMIT_ARGS; no value in ``conf`` has a space."""
    words = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    return " ".join([*words, "pyspark-shell"])


def overhead_mb(heap: str) -> int:
    """Return the megabytes that a JVM's container needs beside its heap."""
    return container_mb(heap) - memory_mb(heap)


def settings(job: PodJob, config: Kubernetes) -> dict[str, str]:
    """Spark's configuration of the driver, beside the image's spark-defaults.conf; ``$(POD_NAME)`` and
    ``$(POD_IP)`` are for Kubernetes to replace."""
    cluster = job.spec.cluster
    memory = {**job.conf, "spark.driver.memory": cluster.driver_memory}
    if not cluster.executors:
        return memory | {"spark.master": f"local[{cluster.driver_cores}]"}
    prefix, labels = "spark.kubernetes.executor", pod_labels(job, config) | {ROLE_LABEL: EXECUTOR}
    has_identity = config.identity(job.role) != NO_IDENTITY
    template = WRITTEN_TEMPLATE if has_identity else f"{TEMPLATES}/executor-{job.role}.yaml"
    return memory | {
        **SPARK_CONF,
        "spark.master": API_SERVER,
        "spark.driver.host": "$(POD_IP)",
        "spark.driver.bindAddress": "$(POD_IP)",
        "spark.kubernetes.driver.pod.name": "$(POD_NAME)",
        "spark.kubernetes.namespace": config.namespace,
        "spark.kubernetes.container.image": config.image,
        "spark.executor.instances": str(cluster.executors),
        "spark.executor.cores": str(cluster.executor_cores),
        "spark.executor.memory": cluster.executor_memory,
        "spark.executor.memoryOverhead": f"{overhead_mb(cluster.executor_memory)}m",
        # So that an executor is known by its driver, also when it is gone.
        f"{prefix}.podNamePrefix": "$(POD_NAME)",
        f"{prefix}.request.cores": cluster.executor_requests,
        f"{prefix}.limit.cores": str(cluster.executor_cores),
        f"{prefix}.podTemplateFile": template,
        **{f"{prefix}.label.{name}": value for name, value in labels.items()},
    }
