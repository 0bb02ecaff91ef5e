"""docker-compose.yaml and docker/Dockerfile: safe by default, and the same names as the code's."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest
import yaml

from local.base import REPO
from local.containers import layout, profiles
from local.containers.stack import NOTIFICATIONS, PROFILES_VARIABLE, SECRETS, URL_VARIABLE
from local.runtime.ports import DEFAULTS
from local.runtime.secrets import complete_secrets
from sluice.airflow.database import DAYS_VARIABLE
from sluice.config import notifications

FILE = (REPO / "docker-compose.yaml").read_text()
DOCKERFILE = (REPO / "docker" / "Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(FILE)
SERVICES: dict[str, Any] = COMPOSE["services"]
# Tasks run in the scheduler's container.
KNOW_DAYS = {"airflow-cleanup", "airflow-scheduler"}
ONE_SHOT = {"configure", "provision", "tools"}
LEADING_OUT = {"ui", "feeds", "notifications"}
each_service = pytest.mark.parametrize("name", SERVICES)


def networks(service: str) -> set[str]:
    return set(SERVICES[service].get("networks", ()))


@each_service
def test_every_service_is_confined(name: str) -> None:
    service = SERVICES[name]
    assert service["init"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["mem_limit"]
    assert service["pids_limit"]
    assert service["logging"]["options"] == {"max-size": "10m", "max-file": "3"}
    assert service["read_only"] is (name not in ONE_SHOT)
    assert "privileged" not in service
    assert "user" not in service
    assert not [volume for volume in service.get("volumes", ()) if volume.startswith(("/", "."))]


@each_service
def test_every_service_that_stays_is_checked_and_restarted(name: str) -> None:
    service = SERVICES[name]
    target = service["image"].removeprefix("${COMPOSE_PROJECT_NAME}/")
    stage = re.search(rf"^FROM \S+ AS {target}$(.*?)(?=^FROM |\Z)", DOCKERFILE, re.M | re.S)
    assert stage, f"docker/Dockerfile has no target {target}"
    if name in ONE_SHOT:
        assert service["restart"] == "no"
    else:
        assert service["restart"] == "unless-stopped"
        assert "healthcheck" in service or "HEALTHCHECK" in stage[1]


@pytest.mark.parametrize(
    "chosen",
    [set(choice) | profiles.OPTIONAL for choice in product(*profiles.PROFILES)],
    ids=lambda c: "-".join(sorted(c)),
)
def test_every_image_is_built_once(chosen: set[str]) -> None:
    active = [one for one in SERVICES.values() if set(one.get("profiles", chosen)) & chosen]
    built = [f"${{COMPOSE_PROJECT_NAME}}/{one['build']['target']}" for one in active if "build" in one]
    assert sorted(built) == sorted({one["image"] for one in active})


def test_the_page_and_the_checks_are_published_and_on_loopback_unless_asked() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    page, checks = DEFAULTS["airflow"], DEFAULTS["checks"]
    assert published == {
        "airflow-api-server": [f"${{SLUICE_UI_ADDRESS:-127.0.0.1}}:${{SLUICE_UI_PORT:-8080}}:{page}"],
        "checks": [f"${{SLUICE_CHECKS_ADDRESS:-127.0.0.1}}:${{SLUICE_CHECKS_PORT:-8082}}:{checks}"],
    }


def test_networks_that_lead_out_are_for_the_page_the_feeds_and_notifiers() -> None:
    open_ones = {name: one for name, one in COMPOSE["networks"].items() if not one.get("internal")}
    # Ports of an internal network cannot be published.
    assert open_ones.pop("metrics")["driver_opts"] == {
        "com.docker.network.bridge.enable_ip_masquerade": "false"
    }
    assert set(open_ones) == LEADING_OUT
    leading = {name: networks(name) & LEADING_OUT for name in SERVICES if networks(name) & LEADING_OUT}
    assert leading == {
        "airflow-api-server": {"ui"},
        "streams": {"feeds"},
        # Where tasks, and the callbacks of runs, call notifiers.
        "airflow-scheduler": {"notifications"},
        "airflow-dag-processor": {"notifications"},
        # Missed deadlines are told there.
        "airflow-triggerer": {"notifications"},
    }
    assert SERVICES["configure"]["network_mode"] == "none"


def test_the_checks_are_served_whatever_else_is_down() -> None:
    assert SERVICES["checks"]["depends_on"] == {"configure": {"condition": "service_completed_successfully"}}
    assert networks("checks") == {"metrics", "checks"}
    assert {name for name in SERVICES if "checks" in networks(name)} == {"checks", "airflow-triggerer"}
    assert {name for name in SERVICES if "metrics" in networks(name)} == {"checks"}


def test_who_reaches_what() -> None:
    assert {name for name in SERVICES if "database" in networks(name)} == {
        *("postgres", "provision", "tools", "streams", "observer", "registry", "rest-catalog"),
        *(f"airflow-{part}" for part in ("api-server", "scheduler", "dag-processor", "triggerer", "cleanup")),
    }
    assert networks("airflow-cleanup") == {"database"}
    asking = {"airflow-api-server", "airflow-triggerer"}
    assert {name for name in SERVICES if "observer" in networks(name)} == {"observer", *asking}
    assert networks("observer") == {"database", "data", "streams", "observer"}
    # It reads the ledger to tell of a run once, and asks no stream's process.
    assert networks("airflow-dag-processor") == {"airflow", "database", "data", "notifications"}
    assert networks("spark-worker") == {"spark"}


def test_a_registry_is_asked_by_jobs_tasks_and_a_person_alone() -> None:
    assert networks("registry") == {"registry", "spark", "database"}
    asking = {"streams", "airflow-scheduler", "tools"}
    assert {name for name in SERVICES if "registry" in networks(name)} == {"registry", *asking}
    # For the executors of jobs.
    assert {name for name in SERVICES if "spark" in networks(name)} == {
        *("kafka", *layout.BROKERS, "minio", "minio-erasure", "airflow-scheduler"),
        *("spark-master", "spark-worker", "registry"),
    }
    assert SERVICES["registry"]["profiles"] == [profiles.REGISTRY]


def test_a_rest_catalog_is_where_its_stores_and_those_who_find_tables_are() -> None:
    assert networks("rest-catalog") == {"database", "data"}
    assert SERVICES["rest-catalog"]["profiles"] == [profiles.REST_CATALOG]


def test_the_file_of_notifications_is_the_user_s_or_empty() -> None:
    assert COMPOSE["secrets"]["notifications"] == {"file": f"${{{notifications.VARIABLE}:-/dev/null}}"}
    assert str(NOTIFICATIONS) == "/run/secrets/notifications"
    assert {name for name, one in SERVICES.items() if "notifications" in one.get("secrets", ())} == ONE_SHOT


def test_the_cleaning_and_the_tasks_know_for_how_long_airflow_keeps_runs() -> None:
    given = {name: service.get("environment", {}) for name, service in SERVICES.items()}
    assert {name for name, one in given.items() if DAYS_VARIABLE in one} == KNOW_DAYS
    assert {given[name][DAYS_VARIABLE] for name in KNOW_DAYS} == {f"${{{DAYS_VARIABLE}:-}}"}


def test_all_passwords_are_given_to_the_administration_alone() -> None:
    assert {name for name, service in SERVICES.items() if "secrets" in service} == ONE_SHOT
    assert COMPOSE["secrets"]["sluice"] == {"environment": "SLUICE_SECRETS"}
    assert str(SECRETS) == "/run/secrets/sluice"
    for name, service in SERVICES.items():
        given = set(service.get("environment", ()))
        allowed = {DAYS_VARIABLE} if name in KNOW_DAYS else {PROFILES_VARIABLE, URL_VARIABLE}
        assert given <= allowed, name


@pytest.mark.parametrize("text", [FILE, DOCKERFILE], ids=["docker-compose.yaml", "Dockerfile"])
def test_nothing_asks_a_registry_and_nothing_is_secret(text: str) -> None:
    for refused in ("# syntax", "pull_policy", "--pull", ":latest"):
        assert refused not in text
    assert not re.search(r"(?i)(password|secret_key)\s*[:=]\s*[^\s$]", text)
    named = [name for name in complete_secrets({}) if "_" in name and re.search(rf"\b{name}\b", text)]
    assert not named


def test_the_bases_are_pinned_by_tag() -> None:
    bases = re.findall(r"^ARG (?:DEBIAN|PYTHON)=(\S+)$", DOCKERFILE, re.M)
    assert bases == ["debian:bookworm-slim", "python:3.11-slim-bookworm"]
    stages = {"setup", *re.findall(r" AS (\S+)$", DOCKERFILE, re.M)}
    for source in re.findall(r"^FROM (\S+)", DOCKERFILE, re.M):
        assert source in stages | {"${DEBIAN}", "${PYTHON}"}, source


@pytest.mark.parametrize(
    "target", ["minio", "postgres", "kafka", "spark", "airflow", "registry", "rest-catalog"]
)
def test_no_container_runs_as_root(target: str) -> None:
    stages = {
        name: (base, body)
        for base, name, body in re.findall(
            r"^FROM (\S+) AS (\S+)$(.*?)(?=^FROM |\Z)", DOCKERFILE, re.M | re.S
        )
    }
    users: list[str] = []
    while target in stages and not users:
        target, body = stages[target]
        users = re.findall(r"^USER (\S+)$", body, re.M)
    assert users[-1] == "10001:10001"


def test_hosts_and_volumes_are_the_code_s() -> None:
    aliases = {
        alias
        for service in SERVICES.values()
        if isinstance(service.get("networks"), dict)
        for options in service["networks"].values()
        for alias in (options or {}).get("aliases", ())
    }
    assert set(layout.HOSTS.values()) <= set(SERVICES) | aliases
    assert set(layout.BROKERS) <= set(SERVICES)
    mounted = dict(volume.split(":", 1) for volume in SERVICES["configure"]["volumes"])
    services = {"postgres", "kafka", *layout.BROKERS, "minio", "airflow", "scheduler", "streams", "spark"}
    assert set(mounted) == services | {"checks", "observer", "registry", "rest-catalog"}
    assert all(path == f"{layout.VOLUMES}/{name}" for name, path in mounted.items())
    drives = [volume for volume in SERVICES["minio-erasure"]["volumes"] if "drive-" in volume]
    assert len(drives) == layout.DRIVES


def test_profiles_are_the_code_s() -> None:
    used = {profile for service in SERVICES.values() for profile in service.get("profiles", ())}
    assert used == {name for choice in profiles.PROFILES for name in choice} | profiles.OPTIONAL | {"tools"}
