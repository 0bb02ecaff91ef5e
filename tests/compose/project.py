"""A project of `docker compose` for tests, with volumes and images of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from local.base import REPO
from local.containers import env_file
from local.runtime.ports import choose
from local.services.airflow import USER
from local.stack.stack import wait_until
from sluice.cli.airflow_api import Airflow, AirflowError
from tests.support import airflow_calls

LOAD = "nyc_taxi_load"
# The longest wait for anything: a machine with 2 cores starts 12 containers.
SECONDS = 600.0


class Project:
    """`folder`: a new one, for the copy of the checkout and what the tests write."""

    def __init__(self, folder: Path, profiles: Sequence[str]) -> None:
        self.folder = folder
        self.checkout = folder / "checkout"
        self.name = f"sluice-test-{os.getpid()}"
        _copy(self.checkout)
        env = self.checkout / ".env"
        env_file.main(list(profiles), env)
        ports = choose({}, os.environ, free=True)
        self.port, self.checks_port = ports["airflow"], ports["checks"]
        url = f"http://127.0.0.1:{self.port}"
        text = env.read_text().replace("SLUICE_UI_PORT=8080", f"SLUICE_UI_PORT={self.port}")
        text = text.replace("SLUICE_CHECKS_PORT=8082", f"SLUICE_CHECKS_PORT={self.checks_port}")
        env.write_text(text.replace("SLUICE_URL=http://127.0.0.1:8080", f"SLUICE_URL={url}"))
        found = env_file.SECRETS_LINE.search(text)
        assert found
        self.secrets: dict[str, str] = json.loads(found[1])
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("SLUICE_", "COMPOSE_"))
        } | {"COMPOSE_PROJECT_NAME": self.name}

    # docker

    def docker(self, *arguments: str, check: bool = True, seconds: float = SECONDS) -> str:
        """A docker command's output. Raises AssertionError with its errors, unless not `check`."""
        done = subprocess.run(
            ["docker", *arguments],
            cwd=self.checkout,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        if check:
            assert done.returncode == 0, (
                f"docker {' '.join(arguments)}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
            )
        return done.stdout

    def compose(self, *arguments: str, check: bool = True, seconds: float = SECONDS) -> str:
        return self.docker("compose", *arguments, check=check, seconds=seconds)

    def build(self) -> None:
        self.compose("--progress", "plain", "build", seconds=1800)

    def up(self) -> None:
        try:
            self.compose("up", "--wait", "--wait-timeout", "240")
        except AssertionError:
            print(self.compose("ps", "--all", check=False))
            print(self.compose("logs", "--tail", "40", check=False)[-20000:])
            raise

    def remove(self) -> None:
        """Everything, the volumes and images too; what is left is a failure."""
        self.compose("--profile", "*", "down", "--volumes", "--rmi", "all", "--remove-orphans")
        label = f"label=com.docker.compose.project={self.name}"
        assert self.docker("ps", "--all", "--quiet", "--filter", label) == ""
        for kind in ("volume", "network"):
            assert self.docker(kind, "ls", "--quiet", "--filter", label) == "", kind
        assert self.docker("image", "ls", "--quiet", f"{self.name}/*") == ""

    def container(self, service: str) -> dict[str, Any]:
        """What docker knows of a service's container."""
        number = self.compose("ps", "--all", "--quiet", service).strip()
        found: dict[str, Any] = json.loads(self.docker("inspect", number))[0]
        return found

    def wait_healthy(self, service: str) -> None:
        def healthy() -> bool:
            return bool(self.container(service)["State"].get("Health", {}).get("Status") == "healthy")

        wait_until(f"{service} is healthy", healthy, SECONDS, 1)

    def crash(self, service: str) -> None:
        """Kill all its processes; its restart policy applies, which it does not after `docker kill`."""
        before = self.container(service)["RestartCount"]
        self.compose("exec", "-T", service, "bash", "-c", "kill -9 -1", check=False)
        wait_until(f"{service} restarts", lambda: self.container(service)["RestartCount"] > before, 60, 0.5)

    def run_in(self, service: str, *command: str, check: bool = True) -> str:
        return self.compose("exec", "-T", service, *command, check=check)

    # Sluice

    def runs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.airflow.request("GET", f"/dags/{LOAD}/dagRuns")["dag_runs"]
        return found

    @cached_property
    def airflow(self) -> Airflow:
        return Airflow(f"http://127.0.0.1:{self.port}", USER, self.secrets["airflow_operator"])

    def last_check(self) -> float:
        """When one of the taxi stream's consumer was reported last, in seconds since 1970, as Prometheus
        reads it."""
        token = {"Authorization": f"Bearer {self.secrets['metrics']}"}
        address = f"http://127.0.0.1:{self.checks_port}/metrics"
        answer = httpx.get(address, headers=token, trust_env=False).raise_for_status()
        [found] = [
            sample.value
            for family in text_string_to_metric_families(answer.text)
            for sample in family.samples
            if sample.name == "sluice_supervision_last_check_timestamp_seconds"
            and sample.labels == {"stream": "nyc_taxi", "component": "consumer"}
        ]
        return float(found)

    def demo(self) -> Demo:
        return Demo(self)

    def put(self, name: str, lines: Sequence[str]) -> None:
        """Upload an object of taxi rides; `lines`: its header first."""
        file = self.folder / name
        file.write_text("\n".join(lines) + "\n")
        file.chmod(0o644)
        mount = ("-v", f"{file}:/in/{name}:ro")
        self.compose("run", "--rm", "-T", *mount, "tools", "put", f"/in/{name}", f"nyc_taxi/{name}")

    def wait_task(self, run_id: str, task: str, states: frozenset[str]) -> None:
        airflow_calls.wait_for_task(self.airflow, LOAD, run_id, task, states, SECONDS)


class Demo:
    """`docker compose run tools demo`, in the background."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._results = project.folder / f"demo-{time.time_ns()}"
        self._results.mkdir()
        # The container's user writes into it.
        self._results.chmod(0o777)
        mount = f"{self._results}:/opt/sluice/app/build"
        self._began = {run["dag_run_id"] for run in self._runs()}
        self._process = subprocess.Popen(
            ["docker", "compose", "run", "--rm", "-T", "-v", mount, "tools", "demo"],
            cwd=project.checkout,
            env=project.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _runs(self) -> list[dict[str, Any]]:
        try:
            found = self._project.runs()
        except AirflowError as error:
            if error.status != 404:  # no DAG yet
                raise
            return []
        return found

    def run_id(self) -> str:
        """Its load's run, as soon as there is one."""
        new: list[str] = []

        def there() -> bool:
            new[:] = [run["dag_run_id"] for run in self._runs() if run["dag_run_id"] not in self._began]
            return bool(new) or self._process.poll() is not None

        wait_until("the demo's run", there, SECONDS, 0.5)
        assert new, self._process.communicate()[0][-5000:]
        return new[0]

    def figures(self) -> dict[str, Any]:
        """Return the figures in the demo's file when it is over. Raises AssertionError with its output if it
        failed."""
        output, _ = self._process.communicate(timeout=1200)
        print(output[-4000:])
        assert self._process.returncode == 0, output[-8000:]
        found: dict[str, Any] = json.loads((self._results / "demo.json").read_text())
        return found


def _copy(target: Path) -> None:
    """The files that git knows or does not ignore: what a commit would have."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=REPO, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (REPO / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPO / name, target / name)
