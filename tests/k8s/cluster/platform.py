"""Overlay `native` on the node, installed as docs/kubernetes.md says, and what a person sees of it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubernetes import client

from local.base import REPO
from local.runtime import roles
from local.runtime.home import StackDir
from local.runtime.ports import DEFAULTS, Network
from local.services import minio
from local.services.airflow import USER
from local.stack.stack import wait_until
from sluice.cli.airflow_api import Airflow
from sluice.clients.lake.catalog import Lake
from sluice.clients.s3.requests import connect
from sluice.config import platform, streams
from sluice.config.platform_sections import s3
from sluice.config.reading.toml import dump
from sluice.core.errors import ClientError
from tests.k8s.cluster.node import Node
from tests.support import airflow_calls

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

NAMESPACE = "sluice"
OVERLAY = REPO / "k8s" / "overlays" / "native"
VERSION = "0.1.0"
IMAGES = ("postgres", "kafka", "minio", "airflow", "jobs")
VOLUMES = 4
SPEC = streams.load("nyc_taxi")
LOAD, STREAM = "nyc_taxi_load", "nyc_taxi_stream"
# The longest wait for anything: 2 processors run ten JVMs and Pythons.
SECONDS = 600.0
# One executor, and requests for which a small node has room.
OVERRIDES = """\
[nyc_taxi.cluster]
executors = 1
driver_requests = "100m"
executor_requests = "100m"
"""


class Platform:
    """`folder`: a new one, for passwords and the archive of images."""

    def __init__(self, node: Node, folder: Path) -> None:
        self.node, self._folder = node, folder
        self.core = client.CoreV1Api(node.api())
        self.batch = client.BatchV1Api(node.api())
        self.secrets: dict[str, str] = {}
        # When the overlay was applied, in seconds since 1970.
        self.applied = 0.0

    def build(self) -> None:
        """The images, from this checkout, into the node."""
        names = [f"sluice/{image}:{VERSION}" for image in IMAGES]
        for image, name in zip(IMAGES, names, strict=True):
            run("docker", "build", "-f", "docker/Dockerfile", "--target", image, "-t", name, ".")
        archive = self._folder / "images.tar"
        run("docker", "save", *names, "-o", str(archive))
        self.node.import_image(archive)
        archive.unlink()

    def install(self) -> None:
        for number in range(VOLUMES):
            self.node.volume(f"volume-{number}", "60Gi")
        self.kubectl("apply", "--filename", str(REPO / "k8s/base/namespace.yaml"))
        passwords = run(sys.executable, "-m", "local", "k8s-render", "passwords")
        self.secrets = json.loads(json.loads(passwords)["stringData"]["sluice"])
        self._create(passwords)
        self.applied = time.time()
        self.kubectl("apply", "--server-side", "--kustomize", str(OVERLAY))
        body = {"data": {"overrides.toml": OVERRIDES}}
        self.core.patch_namespaced_config_map("sluice-overrides", NAMESPACE, body)

    def wait_ready(self) -> None:
        """Until Airflow answers, with all DAGs of the stream."""
        try:
            wait_until("Airflow's pods are ready", self._is_ready, SECONDS, 1)
            for dag in (LOAD, STREAM):
                self.airflow.wait_for_dag(dag, SECONDS)
                self.airflow.unpause(dag)
        except BaseException:
            print(self.kubectl("--namespace", NAMESPACE, "get", "pods,events"))
            raise

    def _is_ready(self) -> bool:
        parts = ("api-server", "scheduler", "dag-processor", "triggerer")
        return all(any(is_ready(pod) for pod in self.pods(f"airflow-{part}")) for part in parts)

    def kubectl(self, *arguments: str) -> str:
        done = self.node.kubectl(*arguments, seconds=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _create(self, text: str) -> None:
        """Not through argv, since it has passwords."""
        file = self._folder / "passwords.json"
        file.touch(mode=0o600)
        file.write_text(text)
        self.kubectl("create", "--filename", str(file))
        file.unlink()

    def pods(self, label: str) -> list[Any]:
        """List the pods of this `app.kubernetes.io/component`, in the order of their creation."""
        selector = f"app.kubernetes.io/component={label}"
        found = self.core.list_namespaced_pod(NAMESPACE, label_selector=selector).items
        return sorted(found, key=lambda pod: pod.metadata.creation_timestamp)

    def log(self, pod: Any) -> str:
        # Otherwise the client gives the text of a bytes object.
        answer = self.core.read_namespaced_pod_log(pod.metadata.name, NAMESPACE, _preload_content=False)
        return str(answer.data.decode(errors="replace"))

    def driver(self) -> Any:
        """The consumer's pod that runs, or None."""
        running = [
            pod for pod in self.pods("stream") if is_ready(pod) and not pod.metadata.deletion_timestamp
        ]
        return running[-1] if running else None

    def job(self) -> Any:
        return self.batch.read_namespaced_job("nyc-taxi-consumer", NAMESPACE)

    def address(self, service: str) -> str:
        """Return the address of the service's pod: Kafka's service has none."""
        (pod,) = [pod for pod in self.pods(service) if is_ready(pod)]
        return str(pod.status.pod_ip)

    @property
    def airflow(self) -> Airflow:
        address = f"http://{self.address('airflow-api-server')}:{DEFAULTS['airflow']}"
        return Airflow(address, USER, self.secrets["airflow_operator"])

    @property
    def network(self) -> Network:
        return Network(DEFAULTS, hosts={name: self.address(name) for name in ("postgres", "kafka", "minio")})

    @property
    def lake(self) -> Lake:
        """As role `reader`."""
        document = roles.documents(StackDir(self._folder), self.network, self.secrets)["reader"]
        return Lake.open(platform.parse(dump(document), "reader"))

    @cached_property
    def s3(self) -> S3Client:
        """As MinIO's root, who uploads the sources."""
        url = f"http://{self.network.address('minio')}"
        return connect(s3.S3(minio.ROOT_USER, self.secrets["minio_root"], url, path_style=True))

    def put(self, name: str, data: bytes) -> None:
        self.s3.put_object(Bucket=roles.SOURCE, Key=f"nyc_taxi/{name}", Body=data)

    def load(self, **params: Any) -> str:
        """Trigger a load; give its run id."""
        return self.airflow.trigger(LOAD, params)

    def wait_verified(self, run_id: str) -> None:
        state = self.airflow.wait(LOAD, run_id, SECONDS)
        airflow_calls.print_failed(self.airflow, LOAD, run_id)
        assert state == "success"

    def wait_task(self, run_id: str, task: str, states: frozenset[str]) -> None:
        airflow_calls.wait_for_task(self.airflow, LOAD, run_id, task, states, SECONDS)

    def rows(self) -> tuple[int, int]:
        """(rows of the table, distinct offsets among them)."""
        scan = self.lake.table(SPEC.table).scan(selected_fields=("_kafka_partition", "_kafka_offset"))
        found = scan.to_arrow()
        return len(found), len(found.group_by(found.column_names).aggregate([]))

    def published_at(self) -> float:
        """When the newest batch was published, in seconds since 1970; 0 before the first."""
        try:
            found = self.lake.position(SPEC.table)
        except ClientError:
            return 0.0
        return (found.batch_at or 0.0) if found else 0.0


def is_ready(pod: Any) -> bool:
    conditions = pod.status.conditions or []
    return any(one.type == "Ready" and one.status == "True" for one in conditions)


def run(*command: str) -> str:
    """Its stdout. Raises AssertionError with the end of its output."""
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=2400)
    assert done.returncode == 0, f"{command[:3]}: {done.stdout[-2000:]}{done.stderr[-3000:]}"
    return done.stdout
