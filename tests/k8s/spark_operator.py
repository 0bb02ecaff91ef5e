"""A stand-in for the Spark operator, which cannot be had here: a test says what it does to one resource."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client

from sluice.clients.kubernetes.spark_application import DRIVER_CONTAINER, GROUP, PLURAL, VERSION
from sluice.clients.processes.spark_operator import SparkOperatorRuntime
from tests.k8s.control_plane import ControlPlane
from tests.k8s.world import ACCOUNT, IMAGE, NAMESPACE, World
from tests.k8s.world import JOB as NAME

WHERE = (GROUP, VERSION, NAMESPACE, PLURAL)
DRIVER = f"{NAME}-driver"


class Applications(World):
    """With the runtime of mode operator; the administrator is the operator."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        super().__init__(plane, folder)
        self.custom = client.CustomObjectsApi(self.api)

    def operator_runtime(self, account: str = ACCOUNT, namespace: str = NAMESPACE) -> SparkOperatorRuntime:
        return SparkOperatorRuntime(replace(self.config(account, namespace), mode="operator"))

    def application(self) -> dict[str, Any]:
        return dict(self.custom.get_namespaced_custom_object(*WHERE, NAME))

    def say(self, state: str, **status: Any) -> None:
        application = {"state": state, "errorMessage": status.pop("error", "")}
        body = {"status": {"applicationState": application, "driverInfo": {"podName": DRIVER}, **status}}
        self.custom.patch_namespaced_custom_object_status(*WHERE, NAME, body)

    def submit(self) -> None:
        """Make its driver pod, as spark-submit does of the template, and have it run."""
        spec = self.application()["spec"]
        pod = spec["driver"]["template"]["spec"]
        pod["containers"][0] |= {
            "image": spec["image"],
            "args": ["driver"],
            "resources": {"limits": {"memory": "1Gi"}},
        }
        self.core.create_namespaced_pod(NAMESPACE, {"metadata": {"name": DRIVER}, "spec": pod})
        # Otherwise the API server removes a pod at once, which no kubelet has.
        target = {"apiVersion": "v1", "kind": "Node", "name": "none"}
        self.core.create_namespaced_pod_binding(
            DRIVER, NAMESPACE, {"metadata": {"name": DRIVER}, "target": target}, _preload_content=False
        )
        self.report("Running", {"running": {"startedAt": now()}})
        self.say("RUNNING", executionAttempts=1, submissionAttempts=1, lastSubmissionAttemptTime=now())

    def report(self, phase: str, state: dict[str, Any]) -> None:
        found = {"name": DRIVER_CONTAINER, "image": IMAGE, "imageID": "", "ready": False, "restartCount": 0}
        body = {"status": {"phase": phase, "containerStatuses": [found | {"state": state}]}}
        self.core.patch_namespaced_pod_status(DRIVER, NAMESPACE, body)

    def end(self, code: int, message: str = "") -> None:
        ended = {"exitCode": code, "message": message, "startedAt": now(), "finishedAt": now()}
        self.report("Failed" if code else "Succeeded", {"terminated": ended})

    def remove_driver(self) -> None:
        try:
            self.core.delete_namespaced_pod(DRIVER, NAMESPACE, body={"gracePeriodSeconds": 0})
        except client.ApiException as error:
            if error.status != 404:
                raise


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def submission(application: dict[str, Any], master: str, folder: Path) -> list[str | Path]:
    """What follows `spark-submit` as the operator calls it (submission.go of 2.4), but for its own labels.

    ``folder``: gets the pod templates.
    """
    name, spec = application["metadata"]["name"], application["spec"]
    conf = {
        "spark.kubernetes.namespace": application["metadata"]["namespace"],
        "spark.kubernetes.submission.waitAppCompletion": "false",
        "spark.kubernetes.container.image": spec["image"],
        "spark.kubernetes.container.image.pullPolicy": spec["imagePullPolicy"],
        "spark.kubernetes.driver.pod.name": f"{name}-driver",
        "spark.executor.instances": str(spec["executor"]["instances"]),
        **spec["sparkConf"],
    }
    for role in ("driver", "executor"):
        pod, kubernetes = spec[role], f"spark.kubernetes.{role}"
        template = folder / f"{role}.yaml"
        template.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", **pod["template"]}))
        labels = application["metadata"]["labels"] | pod.get("labels", {})
        conf |= {
            f"spark.{role}.cores": str(pod["cores"]),
            f"spark.{role}.memory": pod["memory"],
            f"spark.{role}.memoryOverhead": pod["memoryOverhead"],
            f"{kubernetes}.request.cores": pod["coreRequest"],
            f"{kubernetes}.limit.cores": pod["coreLimit"],
            f"{kubernetes}.podTemplateFile": str(template),
            f"{kubernetes}.podTemplateContainerName": f"spark-kubernetes-{role}",
            **{f"{kubernetes}.label.{key}": value for key, value in labels.items()},
        }
    options = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    deploy = ["--master", f"k8s://{master}", "--deploy-mode", "cluster", "--name", name]
    return [*deploy, *options, spec["mainApplicationFile"], *spec["arguments"]]
