"""A small client of Airflow's REST API, as the operator."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import quote

import httpx
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_fixed

from sluice.cli.base import UnhealthyService, UsageError
from sluice.clients.polling import wait_for

DONE = frozenset({"success", "failed"})
# How often a GET or a login is tried: a busy machine may not answer within the timeout.
TRIES = 4
# Time for one try.
TIMEOUT_SECONDS = 30.0
LOGIN = "/auth/token"
_RETRYING = Retrying(
    retry=retry_if_exception_type((httpx.ReadTimeout, httpx.RemoteProtocolError)),
    stop=stop_after_attempt(TRIES),
    wait=wait_fixed(1),
    reraise=True,
)


class Airflow:
    """Airflow's REST API; raises AirflowError for every refusal, and UnhealthyService without an answer. Not
    safe for several threads."""

    def __init__(self, url: str, user: str, password: str, timeout: float = TIMEOUT_SECONDS) -> None:
        self.url = url
        self._login = {"username": user, "password": password}
        self._client = httpx.Client(base_url=url, timeout=timeout, trust_env=False)
        self._token = ""

    def request(self, method: str, path: str, **options: Any) -> Any:
        """Call a path below /api/v2; give the decoded JSON (None for an empty answer). Logs in as needed."""
        if not self._token:
            self._sign_in()
        answer = self._call(method, path, options)
        if answer.status_code == 401:
            self._sign_in()
            answer = self._call(method, path, options)
        if answer.is_error:
            raise AirflowError(method, path, answer.status_code, answer.text)
        return answer.json() if answer.content else None

    def _call(self, method: str, path: str, options: dict[str, Any]) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        return self._send(method, f"/api/v2{path}", headers=headers, **options)

    def _sign_in(self) -> None:
        answer = self._send("POST", LOGIN, json=self._login)
        if answer.is_error:
            raise AirflowError("POST", LOGIN, answer.status_code, answer.text)
        self._token = answer.json()["access_token"]

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        send = partial(self._client.request, method, path, **options)
        try:
            return _RETRYING(send) if method == "GET" or path == LOGIN else send()
        except httpx.TransportError as error:
            raise UnhealthyService(
                f"Airflow: {method} {path}: no answer ({type(error).__name__}). Fix: check that its API "
                "server runs, and read its log"
            ) from error

    def wait_for_dag(self, dag: str, seconds: float = 90) -> None:
        """Wait until the dag-processor knows a DAG. Raises UsageError with the import errors."""
        if wait_for(partial(self._knows, dag), seconds, 1):
            return
        errors = self.request("GET", "/importErrors")["import_errors"]
        texts = [f"{item['filename']}: {item['stack_trace'].strip().splitlines()[-1]}" for item in errors]
        raise UsageError(f"Airflow has no DAG {dag} after {seconds:.0f} s; import errors: {texts or 'none'}")

    def _knows(self, dag: str) -> bool:
        try:
            self.request("GET", f"/dags/{dag}")
        except AirflowError as error:
            if error.status != 404:
                raise
            return False
        return True

    def unpause(self, dag: str) -> None:
        self.request("PATCH", f"/dags/{dag}", json={"is_paused": False})

    def pause(self, dag: str) -> None:
        self.request("PATCH", f"/dags/{dag}", json={"is_paused": True})

    def is_paused(self, dag: str) -> bool:
        return bool(self.request("GET", f"/dags/{dag}")["is_paused"])

    def params(self, dag: str) -> dict[str, Any]:
        """The fields of a DAG's form: name → `value`, `description` and JSON `schema`."""
        return dict(self.request("GET", f"/dags/{dag}/details")["params"] or {})

    def trigger(self, dag: str, conf: dict[str, Any] | None = None, run_id: str | None = None) -> str:
        """Start a run; give its id. AirflowError with status 400 for invalid params."""
        body: dict[str, Any] = {"logical_date": datetime.now(UTC).isoformat(), "conf": conf or {}}
        if run_id is not None:
            body["dag_run_id"] = run_id
        return str(self.request("POST", f"/dags/{dag}/dagRuns", json=body)["dag_run_id"])

    def run(self, dag: str, run_id: str) -> dict[str, Any]:
        return dict(self.request("GET", f"/dags/{dag}/dagRuns/{_quoted(run_id)}"))

    def watch_run(
        self, dag: str, run_id: str, seconds: float, interval: float = 1.0
    ) -> Iterator[dict[str, Any]]:
        """Yield the run every `interval` seconds until it is done. Raises TimeoutError after `seconds`."""
        deadline = time.monotonic() + seconds
        while True:
            found = self.run(dag, run_id)
            yield found
            if found["state"] in DONE:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"run {run_id} of {dag} is {found['state']} after {seconds:.0f} s")
            time.sleep(interval)

    def wait(self, dag: str, run_id: str, seconds: float = 600) -> str:
        """Wait until a run is done; give `success` or `failed`. Raises TimeoutError."""
        *_, last = self.watch_run(dag, run_id, seconds)
        return str(last["state"])

    def tasks(self, dag: str, run_id: str) -> list[dict[str, Any]]:
        """The run's task instances, mapped ones included."""
        path = f"/dags/{dag}/dagRuns/{_quoted(run_id)}/taskInstances"
        return list(self.request("GET", path, params={"limit": 100})["task_instances"])

    def log(self, dag: str, run_id: str, task: str, attempt: int = 1) -> list[str]:
        """The lines of a task's log."""
        path = f"/dags/{dag}/dagRuns/{_quoted(run_id)}/taskInstances/{task}/logs/{attempt}"
        content = self.request("GET", path, params={"full_content": "true"})["content"]
        return [line if isinstance(line, str) else _event(line) for line in content]

    def returned(self, dag: str, run_id: str, task: str) -> Any:
        """What a task returned. AirflowError with status 404 if it returned nothing."""
        path = f"/dags/{dag}/dagRuns/{_quoted(run_id)}/taskInstances/{task}/xcomEntries/return_value"
        return self.request("GET", path, params={"deserialize": "false", "stringify": "false"})["value"]


def _quoted(run_id: str) -> str:
    return quote(run_id, safe="")


def _event(line: dict[str, Any]) -> str:
    """One structured log line as text, with an exception's type and message."""
    text = " ".join(str(line[key]) for key in ("timestamp", "level", "event") if line.get(key))
    for error in line.get("error_detail") or []:
        text += f"\n{error.get('exc_type')}: {error.get('exc_value')}"
    return text


class AirflowError(Exception):
    """Airflow refused a call."""

    def __init__(self, method: str, path: str, status: int, text: str) -> None:
        super().__init__(f"Airflow: {method} {path} answered {status}: {text[:500]}")
        self.status = status
