"""The stack in pods of a Kubernetes cluster (k8s/overlays): what each Secret has, from the embedded stack's
code.

Pods have no volume in common: `configure` writes each one's files into a Secret; `docker/start` copies them.
"""

from __future__ import annotations

import base64
import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from local.containers import layout, strimzi
from local.containers.layout import Volume, script
from local.containers.profiles import REGISTRY, REST_CATALOG
from local.containers.stack import ContainerStack
from local.runtime import notifications_file, roles
from local.runtime.context import Context
from local.runtime.home import StackDir
from local.runtime.supervisord import Program
from local.services import airflow, registry, rest_catalog
from sluice.clients.kubernetes import pods
from sluice.clients.kubernetes.api import KubernetesApi
from sluice.clients.kubernetes.pods import CONNECTIONS_SECRET, PART_OF, SPARK_SECRET, platform_secret
from sluice.config.platform import ROLES
from sluice.config.platform_sections.catalog import REST
from sluice.config.reading.toml import dump

# Set in the pods that have all passwords.
NAMESPACE_VARIABLE = "SLUICE_NAMESPACE"
# Another image of jobs than the one beside Airflow's.
IMAGE_VARIABLE = "SLUICE_JOBS_IMAGE"
# How components and Spark jobs run: as [kubernetes] of the platform file has it.
MODE_VARIABLE = "SLUICE_SPARK_MODE"
# A ConfigMap of the overlay: the installation's own values for the streams. Airflow's pods mount it too.
OVERRIDES_MAP = "sluice-overrides"
# A task reports to the API server with a token of its own, and asks it for connections.
NOT_FOR_TASKS = frozenset(
    f"AIRFLOW__{name}"
    for name in ("DATABASE__SQL_ALCHEMY_CONN", "CORE__FERNET_KEY", "API__SECRET_KEY", "API_AUTH__JWT_SECRET")
)
# Secret `sluice-passwords`, which a person makes (`local/run k8s-render passwords`).
PASSWORDS = Path("/etc/sluice/passwords/sluice")
# Where the scheduler finds the pod of a task.
POD_TEMPLATE = "/etc/sluice/airflow/pod-template.yaml"
# The Secret with the platform file of the pod that serves the last checks.
CHECKS = "sluice-checks"
# That of the observer, which is mounted as it is, too.
OBSERVER = "sluice-observer"
# Until Airflow's database is provisioned and migrated.
MIGRATION_SECONDS = 600
_FIXES = {
    401: "see the pod's service account",
    403: "apply k8s/components/airflow/role-configure.yaml",
    404: "apply the overlay, which has the namespace",
    409: "remove the Secret, or what else manages it",
    422: "see the message",
}


class ClusterStack(ContainerStack):
    """As a pod with the passwords sees it."""

    home = StackDir(layout.HOME.root, is_mounted=True)
    has_checkpoint_bucket = True

    def __init__(self, secrets: Path = PASSWORDS, environ: Mapping[str, str] = os.environ) -> None:
        super().__init__(secrets, environ)

    @property
    def namespace(self) -> str:
        return self._environ[NAMESPACE_VARIABLE]

    @cached_property
    def image(self) -> str:
        """The one that this pod runs, which is Airflow's: however an overlay has set it."""
        from kubernetes.client import CoreV1Api

        core, name = CoreV1Api(self.api.client), socket.gethostname()
        pod = self.api.ask(f"pod {name}", lambda: core.read_namespaced_pod(name, self.namespace))
        return str(pod.spec.containers[0].image)

    @cached_property
    def api(self) -> KubernetesApi:
        return KubernetesApi("", "kubernetes", _FIXES)

    @property
    def strimzi(self) -> str:
        """The name of Strimzi's Kafka resource; empty if Kafka is the plain pod."""
        return self._environ.get(strimzi.VARIABLE, "")

    @property
    def profiles(self) -> frozenset[str]:
        """With the registry and the REST catalog if the overlay has their components, which set variables."""
        added = set[str]()
        if registry.needs_registry((), registry.chosen(self._environ.get(registry.VARIABLE), None)):
            added.add(REGISTRY)
        if rest_catalog.chosen(self._environ.get(rest_catalog.VARIABLE), None) == REST:
            added.add(REST_CATALOG)
        return super().profiles | added

    @cached_property
    def context(self) -> Context:
        found = super().context
        settings = {
            "CORE__EXECUTOR": "KubernetesExecutor",
            # The image has the plugin as a package.
            "CORE__PLUGINS_FOLDER": str(self.home.airflow / "plugins"),
            "KUBERNETES_EXECUTOR__NAMESPACE": self.namespace,
            "KUBERNETES_EXECUTOR__POD_TEMPLATE_FILE": POD_TEMPLATE,
            "KUBERNETES_EXECUTOR__DELETE_WORKER_PODS": "True",
        }
        return replace(
            found, airflow_settings={**found.airflow_settings, **settings}, overrides=pods.OVERRIDES
        )

    def executor_settings(self) -> dict[str, str]:
        """The image of tasks: a template in a ConfigMap is out of kustomize's reach."""
        repository, _, tag = self.image.rpartition(":")
        if not repository or "/" in tag:
            repository, tag = self.image, "latest"
        return {
            "KUBERNETES_EXECUTOR__WORKER_CONTAINER_REPOSITORY": repository,
            "KUBERNETES_EXECUTOR__WORKER_CONTAINER_TAG": tag,
        }

    def jobs_image(self) -> str:
        """`…/airflow:1` is `…/jobs:1`."""
        return self._environ.get(IMAGE_VARIABLE) or re.sub(r"airflow(?=[^/]*$)", "jobs", self.image)

    def platform_documents(self) -> dict[str, roles.Document]:
        documents = roles.documents(
            self.home,
            self.context.network,
            self.secrets,
            registry=self.context.registry is not None,
            rest_catalog=self.context.rest_catalog is not None,
        )
        for document in documents.values():
            document["checkpoints"] = {"root": f"s3a://{roles.CHECKPOINTS}"}
        for role in ("airflow", "observer"):
            del documents[role]["supervisor"]
        if self.strimzi:
            strimzi.connect(documents, self.home.platform, self.namespace, self.strimzi)
        return documents

    def advice(self, services: Sequence[str]) -> str:
        selector = f"'{pods.ROLE_LABEL} in ({','.join(services)})'"
        return f"kubectl --namespace {self.namespace} describe pod --selector {selector}, then logs"

    def kubernetes(self) -> roles.Document:
        """The section of the platform files of roles airflow and observer; `provision` does without."""
        return {
            "namespace": self.namespace,
            "image": self.jobs_image(),
            "mode": self._environ.get(MODE_VARIABLE, "native"),
            "overrides": OVERRIDES_MAP,
        }

    def provisioning(self) -> dict[str, Callable[[], None]]:
        made = super().provisioning()
        if self.strimzi:
            # Its users are KafkaUsers (local/run k8s-render).
            del made["kafka"]
        return made

    def secrets_of_pods(self, authority: str = "") -> dict[str, dict[str, str]]:
        """Name of a Secret -> key -> text. ``authority``: of Strimzi's certificates."""
        settings = {**self.context.airflow_settings, **self.executor_settings()}
        stack, documents = replace(self.context, airflow_settings=settings), self.platform_documents()
        for role in ("airflow", "observer"):
            documents[role]["kubernetes"] = self.kubernetes()
        volumes = [
            layout.postgres_volume(stack, "all"),
            layout.minio_volume(stack),
            *_airflow(stack, documents, authority),
        ]
        if not self.strimzi:
            volumes.append(layout.kafka_volume(stack, 1))
        if stack.registry is not None:
            volumes.append(layout.registry_volume(stack))
        if stack.rest_catalog is not None:
            volumes.append(layout.rest_catalog_volume(stack))
        made = {f"sluice-{volume.name}": _keys(volume) for volume in volumes}
        for role in layout.JOBS:
            text = dump(documents[role])
            made[platform_secret(role)] = {f"{role}.toml": text, SPARK_SECRET: self.secrets["spark"]}
            if authority:
                made[platform_secret(role)][strimzi.AUTHORITY] = authority
        # Mounted as it is, since its pod also runs where no `configure` does (overlay `prod`).
        metrics = layout.checks_platform(Path(), documents)
        made[CHECKS] = {str(path): text for path, text in metrics.items()}
        made[OBSERVER] = {"observer.toml": dump(documents["observer"])}
        if authority:
            made[OBSERVER][strimzi.AUTHORITY] = authority
        made[roles.KAFKA_PASSWORDS] = {role: self.secrets[f"kafka_{role}"] for role in ROLES}
        # Airflow's tasks fill it.
        made[CONNECTIONS_SECRET] = {}
        return made


def _airflow(stack: Context, documents: Mapping[str, roles.Document], authority: str) -> list[Volume]:
    """Return what Airflow's components mount, and the pods of its tasks, which also delete files."""
    files = airflow.files(stack) | notifications_file.files(stack)
    if authority:
        files |= {stack.home.platform / strimzi.AUTHORITY: authority}
    environment, command = airflow.environment(stack), str(stack.python_env / "bin" / "airflow")
    wait = ("db", "check-migrations", "--migration-wait-timeout", str(MIGRATION_SECONDS))

    def program(name: str, words: Sequence[str]) -> Program:
        return Program(name, words, environment, priority=60, directory=stack.home.root)

    task = {name: value for name, value in environment.items() if name not in NOT_FOR_TASKS}
    components = [*airflow.programs(stack), program("airflow-wait", [command, *wait])]
    return [
        Volume(
            "airflow",
            files | layout.platform(stack, documents, ("airflow",)),
            {one.name: script(one) for one in components},
        ),
        Volume(
            "task",
            _of_tasks(files) | layout.platform(stack, documents, ("airflow", "maintenance")),
            # The executor gives the command.
            {"airflow-task": script(replace(program("airflow-task", ["env"]), environment=task))},
        ),
    ]


def _of_tasks(files: Mapping[Path, str]) -> dict[Path, str]:
    """Without the password of Airflow's user."""
    return {path: text for path, text in files.items() if path.name != "passwords.json"}


def _keys(volume: Volume) -> dict[str, str]:
    files = {path.relative_to(layout.HOME.root): text for path, text in volume.files.items()}
    files |= {Path("start", name): text for name, text in volume.scripts.items()}
    return {str(path).replace("/", "__"): text for path, text in files.items()}


def configure(stack: ClusterStack) -> int:
    """Write the Secrets of all pods; no pod gets another's passwords. Idempotent."""
    from kubernetes.client import CoreV1Api

    api, core = stack.api, CoreV1Api(stack.api.client)
    authority = strimzi.authority(api, core, stack.namespace, stack.strimzi) if stack.strimzi else ""
    for name, keys in stack.secrets_of_pods(authority).items():
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "labels": dict(PART_OF)},
            "data": {key: base64.b64encode(text.encode()).decode() for key, text in keys.items()},
        }
        where = f"Secret {stack.namespace}/{name}"
        api.apply(where, core.patch_namespaced_secret, name=name, namespace=stack.namespace, body=body)
        print(f"Secret {name}: {len(keys)} files")
    return 0
