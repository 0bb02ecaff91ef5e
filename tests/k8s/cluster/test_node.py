"""The node does what the tests of the platform rely on."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from pathlib import Path
from urllib.error import URLError

import pytest
from kubernetes import client

from local.stack.stack import wait_until
from tests.k8s.cluster import images
from tests.k8s.cluster.node import DOMAIN, OWNER, Node
from tests.k8s.cluster.objects import SECONDS, Objects, job, pod_spec

NAMESPACE = "of-node-tests"
FENCED = 76


@pytest.fixture(scope="module")
def objects(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Objects]:
    archive = tmp_path_factory.mktemp("images") / "busybox.tar"
    images.write_busybox(archive)
    node.import_image(archive)
    api = node.api()
    core = client.CoreV1Api(api)
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    core.create_namespace({"metadata": {"name": NAMESPACE, "labels": labels}})
    yield Objects(api, NAMESPACE)
    # Without waiting: other tests have namespaces of their own.
    core.delete_namespace(NAMESPACE)


def test_a_pod_is_reached_from_here_and_by_other_pods(objects: Objects) -> None:
    objects.run("web", pod_spec("echo hello > /tmp/index.html; exec httpd -f -p 8080 -h /tmp"))
    ports = [{"port": 80, "targetPort": 8080}]
    service = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": ports}}
    made = objects.core.create_namespaced_service(NAMESPACE, service)
    web = objects.wait_for_phase("web", "Running")
    for address in (f"{web.status.pod_ip}:8080", made.spec.cluster_ip):
        # The server starts, and kube-proxy learns of it.
        wait_until(f"an answer of {address}", partial(answers, address), SECONDS, 0.2)
    # Both names: the DNS server watches services with its service account's token.
    objects.run("client", pod_spec(f"wget -qO- http://web && wget -qO- http://web.{NAMESPACE}.svc.{DOMAIN}"))
    objects.wait_for_phase("client", "Succeeded")
    assert objects.log("client") == "hello\nhello\n"


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/", timeout=5) as response:
            return bool(response.read() == b"hello\n")
    except URLError:
        return False


def test_a_pod_has_no_way_out(objects: Objects) -> None:
    # An address of a range for documentation.
    objects.run("outwards", pod_spec("wget -qO- http://198.51.100.1 2>&1"))
    objects.wait_for_phase("outwards", "Failed")
    assert "No route to host" in objects.log("outwards")


def test_pod_security_is_enforced(objects: Objects) -> None:
    as_root = pod_spec("id")
    del as_root["containers"][0]["securityContext"]
    with pytest.raises(client.ApiException, match="violates PodSecurity") as caught:
        objects.run("as-root", as_root)
    assert caught.value.status == HTTPStatus.FORBIDDEN


def test_a_job_fails_at_once_with_an_exit_code_that_its_policy_names(objects: Objects) -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [FENCED]}}
    policy = {"rules": [rule]}
    body = job("fenced", pod_spec(f"exit {FENCED}"), backoffLimit=6, podFailurePolicy=policy)
    objects.batch.create_namespaced_job(NAMESPACE, body)
    wait_until("the end of the job", lambda: conditions(objects, "fenced").get("Failed") is not None, SECONDS)
    assert conditions(objects, "fenced")["Failed"] == "PodFailurePolicy"
    assert len(objects.pods_of_job("fenced")) == 1


def conditions(objects: Objects, name: str) -> dict[str, str]:
    """Type and reason of those of a job."""
    found = objects.batch.read_namespaced_job(name, NAMESPACE).status.conditions or []
    return {condition.type: condition.reason for condition in found}


def test_a_pod_of_a_job_is_replaced_only_after_it_ended(objects: Objects) -> None:
    # It ends after the 10 s that a job waits before it replaces a pod.
    script = "trap 'sleep 15; exit 1' TERM; echo ready; while true; do sleep 0.1; done"
    body = job("replaced", pod_spec(script), backoffLimit=6, podReplacementPolicy="Failed")
    objects.batch.create_namespaced_job(NAMESPACE, body)
    wait_until("its pod", lambda: len(objects.pods_of_job("replaced")) == 1, SECONDS)
    [first] = objects.pods_of_job("replaced")
    name = first.metadata.name
    objects.wait_for_phase(name, "Running")
    wait_until("its script", lambda: objects.log(name) == "ready\n", SECONDS)
    objects.core.delete_namespaced_pod(name, NAMESPACE)
    deadline = time.monotonic() + SECONDS
    pods = [first]
    while all(item.metadata.name == name for item in pods):
        assert time.monotonic() < deadline, "no pod has replaced it"
        time.sleep(0.1)
        # The last that is seen of it.
        [first] = [item for item in pods if item.metadata.name == name] or [first]
        pods = objects.pods_of_job("replaced")
    # By default a second pod would run beside it.
    assert first.status.phase == "Failed"
    objects.batch.delete_namespaced_job("replaced", NAMESPACE, propagation_policy="Background")


def test_a_container_that_takes_too_much_memory_is_reported_as_such(objects: Objects) -> None:
    limits = {"limits": {"memory": "32Mi"}}
    objects.run("greedy", pod_spec("exec tail /dev/zero", resources=limits))
    greedy = objects.wait_for_phase("greedy", "Failed")
    [status] = greedy.status.container_statuses
    assert (status.state.terminated.reason, status.state.terminated.exit_code) == ("OOMKilled", 137)


def test_a_quota_is_enforced(node: Node, objects: Objects) -> None:
    core = objects.core
    core.create_namespace({"metadata": {"name": "with-quota"}})
    core.create_namespaced_resource_quota(
        "with-quota", {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    )

    def is_counted() -> bool:
        return bool(core.read_namespaced_resource_quota("none", "with-quota").status.hard)

    wait_until("the quota", is_counted, SECONDS)
    with pytest.raises(client.ApiException, match="exceeded quota: none"):
        Objects(node.api(), "with-quota").run("one", pod_spec("id"))
    core.delete_namespace("with-quota")


def test_an_image_whose_content_changes_is_imported_again(
    node: Node, objects: Objects, tmp_path: Path
) -> None:
    name = "changing:1"
    for note in ("first", "second"):
        images.write_busybox(tmp_path / f"{note}.tar", name, note)
    # The third is there, under its id only; the fourth also under its name.
    for number, note in enumerate(("first", "second", "first", "first")):
        node.import_image(tmp_path / f"{note}.tar")
        reader = f"reader-{number}"
        objects.run(reader, pod_spec("cat /etc/note", image=name))
        objects.wait_for_phase(reader, "Succeeded")
        assert objects.log(reader) == note


def test_a_claim_is_bound_to_a_volume_of_the_project_s_user(node: Node, objects: Objects) -> None:
    node.volume("of-tests", "1Gi")
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    objects.core.create_namespaced_persistent_volume_claim(
        NAMESPACE, {"metadata": {"name": "data"}, "spec": spec}
    )
    script = pod_spec("id -u > /data/user", volumeMounts=[{"name": "data", "mountPath": "/data"}])
    script["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    objects.run("writer", script)
    objects.wait_for_phase("writer", "Succeeded")
    assert Path(node.folder, "volumes", "of-tests", "user").read_text() == f"{OWNER}\n"
