"""What each pod of a cluster is given: its own passwords, and the way to run components."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from local.containers import layout
from local.runtime.context import Context
from local.runtime.home import write_files
from local.runtime.ports import DEFAULTS
from sluice.config import platform
from sluice.config.platform import ROLES
from sluice.config.platform_sections.kubernetes import Kubernetes
from tests.support.cluster_stack import SECRETS, FakeArtifacts

AIRFLOW = ("airflow_fernet", "airflow_api_secret", "airflow_jwt", "airflow_operator", "postgres_airflow")
# Its database is also an Airflow connection.
TASKS = ("postgres_results", "kafka_airflow", "minio_airflow", "lake_airflow", "metrics", "observer")
# Secret -> the passwords in it, and no other.
WANTED = {
    "sluice-postgres": {"postgres_admin"},
    "sluice-kafka": {"kafka_broker", "kafka_admin", "kafka_cluster", *(f"kafka_{role}" for role in ROLES)},
    "sluice-minio": {"minio_root"},
    "sluice-airflow": {*AIRFLOW, *TASKS},
    "sluice-task": {*TASKS, "kafka_maintenance", "minio_maintenance", "lake_maintenance"},
    "sluice-platform-producer": {"kafka_producer", "minio_producer", "lake_producer", "spark"},
    "sluice-platform-consumer": {"kafka_consumer", "minio_consumer", "lake_consumer", "spark"},
    # Not what else is in role airflow's platform file.
    "sluice-checks": {"metrics"},
    "sluice-observer": {"kafka_observer", "minio_observer", "lake_observer", "observer"},
    "sluice-kafka-passwords": {f"kafka_{role}" for role in ROLES},
    "sluice-connections": set(),
}


def test_no_pod_has_another_s_passwords(context: Context, tmp_path: Path) -> None:
    made = FakeArtifacts(context, tmp_path).secrets_of_pods()
    found = {
        name: {key for key, value in SECRETS.items() if value in "".join(texts.values())}
        for name, texts in made.items()
    }
    assert found == WANTED


def test_a_registry_has_a_secret_of_its_own(context: Context, tmp_path: Path) -> None:
    has_one = replace(context, registry=Path("/opt/sluice/registry-0"))
    made = FakeArtifacts(has_one, tmp_path).secrets_of_pods()
    assert set(made["sluice-registry"]) == {
        "conf__registry__config__application.properties",
        "start__registry",
    }
    texts = {name: "".join(keys.values()) for name, keys in made.items()}
    own = [name for name, text in texts.items() if SECRETS["postgres_registry"] in text]
    assert own == ["sluice-registry"]


def test_components_and_tasks_are_told_where_the_registry_is(context: Context, tmp_path: Path) -> None:
    for has_one in (False, True):
        folder = Path("/opt/sluice/registry-0") if has_one else None
        made = FakeArtifacts(replace(context, registry=folder), tmp_path).secrets_of_pods()
        told = {
            (name, tomllib.loads(text)["role"]): tomllib.loads(text)["registry"]["url"]
            for name, texts in made.items()
            for text in texts.values()
            if "[registry]" in text
        }
        # Tasks register and look at schemas, producers name them, consumers read them.
        asking = {
            ("sluice-airflow", "airflow"),
            ("sluice-task", "airflow"),
            ("sluice-platform-producer", "producer"),
            ("sluice-platform-consumer", "consumer"),
        }
        assert told == (dict.fromkeys(asking, "http://registry:18084/apis/ccompat/v7") if has_one else {})


def test_the_component_of_a_registry_says_that_there_is_one(context: Context, tmp_path: Path) -> None:
    profiles = [
        FakeArtifacts(context, tmp_path, SLUICE_PROFILES="single-broker,single-drive", **setting).profiles
        for setting in ({}, {"SLUICE_REGISTRY": "always"})
    ]
    assert profiles[1] - profiles[0] == {"registry"}


def test_a_rest_catalog_has_a_secret_of_its_own(context: Context, tmp_path: Path) -> None:
    has_one = replace(context, rest_catalog=Path("/opt/sluice/jars-rest-catalog-0"))
    made = FakeArtifacts(has_one, tmp_path).secrets_of_pods()
    assert set(made["sluice-rest-catalog"]) == {
        "conf__rest-catalog__server.properties",
        "start__rest-catalog",
    }
    texts = {name: "".join(keys.values()) for name, keys in made.items()}
    for secret in ("lake_catalog", "minio_catalog"):
        assert [name for name, text in texts.items() if SECRETS[secret] in text] == ["sluice-rest-catalog"]
    consumer = platform.parse(made["sluice-platform-consumer"]["consumer.toml"], "consumer").lake.catalog
    assert (consumer.type, consumer.uri, consumer.plain_text) == ("rest", "http://rest-catalog:18086", True)


def test_the_component_of_a_rest_catalog_says_that_there_is_one(context: Context, tmp_path: Path) -> None:
    profiles = [
        FakeArtifacts(context, tmp_path, SLUICE_PROFILES="single-broker,single-drive", **setting).profiles
        for setting in ({}, {"SLUICE_CATALOG": "rest"})
    ]
    assert profiles[1] - profiles[0] == {"rest-catalog"}


@pytest.mark.parametrize("mode", ["native", "operator"])
def test_airflow_is_told_how_components_run(context: Context, tmp_path: Path, mode: str) -> None:
    made = FakeArtifacts(context, tmp_path, SLUICE_SPARK_MODE=mode).secrets_of_pods()
    for name in ("sluice-airflow", "sluice-task"):
        found = platform.parse(made[name]["platform__airflow.toml"], name)
        assert found.supervisor is None
        assert found.kubernetes == Kubernetes("lake", "sluice/jobs:0.1.0", mode, "sluice-overrides")


def test_checks_are_reported_to_the_pod_that_serves_them(context: Context, tmp_path: Path) -> None:
    made = FakeArtifacts(context, tmp_path).secrets_of_pods()
    found = platform.parse(made["sluice-airflow"]["platform__airflow.toml"], "airflow").metrics
    assert found is not None
    assert found.checks_url == f"http://{layout.HOSTS['checks']}:{DEFAULTS['checks']}"
    folder = tmp_path / "platform"
    write_files({folder / name: text for name, text in made["sluice-checks"].items()})
    assert platform.load_metrics({platform.DIRECTORY_VARIABLE: str(folder)}) == found


def test_checkpoints_are_in_a_bucket_since_pods_have_no_volume_in_common(
    context: Context, tmp_path: Path
) -> None:
    made = FakeArtifacts(context, tmp_path).secrets_of_pods()
    for role in ("producer", "consumer"):
        found = platform.parse(made[f"sluice-platform-{role}"][f"{role}.toml"], role)
        assert found.checkpoints.root == "s3a://checkpoints"


@pytest.mark.parametrize(
    ("image", "repository", "tag", "jobs"),
    [
        ("sluice/airflow:0.2.0", "sluice/airflow", "0.2.0", "sluice/jobs:0.2.0"),
        (
            "host:5000/airflow/airflow-arm",
            "host:5000/airflow/airflow-arm",
            "latest",
            "host:5000/airflow/jobs-arm",
        ),
        ("x/airflow@sha256:ab", "x/airflow@sha256", "ab", "x/jobs@sha256:ab"),
    ],
)
def test_tasks_and_jobs_have_the_images_beside_configure_s(
    context: Context, tmp_path: Path, image: str, repository: str, tag: str, jobs: str
) -> None:
    stack = FakeArtifacts(context, tmp_path, IMAGE=image)
    made = stack.secrets_of_pods()
    script = made["sluice-airflow"]["start__airflow-scheduler"]
    prefix = "export AIRFLOW__KUBERNETES_EXECUTOR__WORKER_CONTAINER"
    assert f"{prefix}_REPOSITORY={repository}\n" in script
    assert f"{prefix}_TAG={tag}\n" in script
    # An executor joins them with a colon.
    assert f"{repository}:{tag}" in (image, f"{image}:latest")
    assert stack.jobs_image() == jobs
    assert FakeArtifacts(context, tmp_path, SLUICE_JOBS_IMAGE="mine:1").jobs_image() == "mine:1"
