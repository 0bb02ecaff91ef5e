"""The environment of processes that tasks start, as the processes themselves see it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from sluice.airflow.operators.jobs.spark_job import SparkJobOperator
from sluice.airflow.operators.supervision.drill import DrillOperator
from tests.support.steps import given

SECRETS = {
    "AIRFLOW__CORE__FERNET_KEY": "fernet-key-of-airflow",
    "AIRFLOW__API_AUTH__JWT_SECRET": "jwt-secret-of-airflow",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql://airflow:airflow-password@h/airflow",
    "AIRFLOW_CONN_SLUICE_RESULTS": '{"password": "results-password"}',
    "AWS_SECRET_ACCESS_KEY": "aws-secret-of-the-user",
    "SLUICE_SECRETS": "all-secrets-of-the-containers",
    # To which platform files of other roles refer.
    "SLUICE_S3_KEY": "s3-key-of-airflow",
    "KAFKA_OF_CONSUMER": "kafka-password-of-the-consumer",
    "SOME_TOKEN": "token-of-the-user",
}
# To which the producer's file refers.
OWN = {"KAFKA_OF_PRODUCER": "kafka-password-of-the-producer"}
NEEDED = {
    "SPARK_CONF_DIR": "/spark",
    "LC_ALL": "C.UTF-8",
    "HTTPS_PROXY": "http://proxy:3128",
    "SSL_CERT_FILE": "/ca.pem",
    "PYTHONUNBUFFERED": "1",
}
# Stands for spark-submit and for the stack's command: records its arguments and environment.
PROGRAM = """\
#!{python} -S
import json, os, sys
with open({record!r}, "a") as file:
    print(json.dumps([sys.argv[1:], dict(os.environ)]), file=file)
print({says!r})
"""


Processes = list[tuple[list[str], dict[str, str]]]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Processes]:
    files = {"airflow": "SLUICE_S3_KEY", "consumer": "KAFKA_OF_CONSUMER", "producer": "KAFKA_OF_PRODUCER"}
    (tmp_path / "platform").mkdir()
    for role, variable in files.items():
        text = f'role = "{role}"\n[kafka]\npassword = {{ env = "{variable}" }}\n'
        (tmp_path / "platform" / f"{role}.toml").write_text(text)
    monkeypatch.setenv("SLUICE_PLATFORM_DIR", str(tmp_path / "platform"))
    for name, value in {**SECRETS, **OWN, **NEEDED}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    record = tmp_path / "record"

    def write(name: str, says: str = "") -> Processes:
        path = tmp_path / name
        path.write_text(PROGRAM.format(python=sys.executable, record=str(record), says=says))
        path.chmod(0o700)
        lines = record.read_text().splitlines() if record.exists() else []
        return [(args, env) for args, env in map(json.loads, lines)]

    return write


def check(environment: dict[str, str], own: bool = False) -> None:
    """``own``: whether it is the producer's job, which reads the producer's file."""
    assert {name: value for name, value in environment.items() if name in OWN} == (OWN if own else {})
    found = {
        name for name, value in SECRETS.items() if value in json.dumps(environment) or name in environment
    }
    assert found == set()
    assert {name: environment.get(name) for name in NEEDED} == NEEDED
    assert environment["SLUICE_PLATFORM_DIR"] == os.environ["SLUICE_PLATFORM_DIR"]
    assert environment["PATH"] == os.environ["PATH"]


def submit() -> SparkJobOperator:
    step = SparkJobOperator(task_id="produce", stream="nyc_taxi", job="producer", status_poll_interval=0)
    step.submit(given(), [])
    return step


def test_a_spark_job_gets_no_secret_of_airflow(
    program: Callable[..., Processes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SLUICE_SPARK", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    program("spark-submit")
    submit()
    ((arguments, environment),) = program("spark-submit")
    assert arguments[-2:] == ["producer", "nyc_taxi"]
    check(environment, own=True)
    assert not [value for value in {**SECRETS, **OWN}.values() if value in json.dumps(arguments)]


def test_a_drill_gets_no_secret_of_airflow(
    program: Callable[..., Processes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path))
    program("python", says='{"passed": true}')
    step = DrillOperator(task_id="drill")
    step.python = str(tmp_path / "python")
    step.execute(given(params={"drill": "x", "trigger_immediately": False}))
    ((_, environment),) = program("python")
    check(environment)


def test_the_status_and_the_end_of_a_job_on_a_cluster_get_none_either(
    program: Callable[..., Processes], monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = {"conn_type": "spark", "host": "spark://master:7077", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SLUICE_SPARK", json.dumps(connection))
    resolve = SparkSubmitHook._resolve_connection
    # Its commands without REST begin with a program that a test can replace; with REST it is /usr/bin/curl.
    monkeypatch.setattr(
        SparkSubmitHook, "_resolve_connection", lambda hook: {**resolve(hook), "rest_endpoint": None}
    )
    program("spark-submit", says='driver-1 "driverState" : "FINISHED"')
    submit().on_kill()
    found = program("spark-submit")
    assert [args[2] for args, _ in found] == ["--name", "--status", "--kill"]
    for args, environment in found:
        check(environment, own=args[2] == "--name")
