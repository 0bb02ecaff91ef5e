"""Each container's files: its own secrets only, and a start script that a shell runs."""

from __future__ import annotations

import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from local.base import UsageError
from local.containers import layout, profiles
from local.containers.layout import Once, Volume, script
from local.runtime import roles
from local.runtime.context import Context
from local.runtime.ports import DEFAULTS, HOST, Network
from local.runtime.secrets import complete_secrets
from local.runtime.supervisord import Program
from local.services import kafka
from tests.support.raising import raising

ALL = frozenset({"cluster", "erasure", "spark", "registry", "rest-catalog"})
# How tables are found in PostgreSQL, for the secrets of the roles.
ON_SQL = ALL - {"rest-catalog"}
DEFAULT = frozenset({"single-broker", "single-drive"})
SECRETS = complete_secrets({})


def volumes(context: Context, chosen: frozenset[str]) -> dict[str, Volume]:
    brokers = layout.BROKERS if "cluster" in chosen else ()
    network = Network(DEFAULTS, bind=layout.ANY, hosts=layout.HOSTS, brokers=brokers)
    registry = Path("/opt/sluice/registry-0") if profiles.REGISTRY in chosen else None
    catalog = Path("/opt/sluice/jars-rest-catalog-0") if profiles.REST_CATALOG in chosen else None
    there = replace(
        context,
        network=network,
        secrets=SECRETS,
        home=layout.HOME,
        registry=registry,
        rest_catalog=catalog,
    )
    return {volume.name: volume for volume in layout.volumes(there, chosen)}


def text(volume: Volume) -> str:
    return "\n".join([*volume.files.values(), *volume.scripts.values()])


def secrets_in(volume: Volume) -> set[str]:
    return {name for name, value in SECRETS.items() if value in text(volume)}


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        (DEFAULT, {"postgres", "kafka", "minio", "airflow", "scheduler", "streams", "checks", "observer"}),
        (
            ALL,
            {
                "postgres",
                *layout.BROKERS,
                "minio",
                "airflow",
                "scheduler",
                "streams",
                "checks",
                "observer",
                "spark",
                "registry",
                "rest-catalog",
            },
        ),
    ],
)
def test_a_volume_per_service_of_the_profiles(
    context: Context, chosen: frozenset[str], names: set[str]
) -> None:
    assert set(volumes(context, chosen)) == names


def test_notifications_are_where_airflow_calls_notifiers(context: Context, tmp_path: Path) -> None:
    text = '[[notify]]\nnotifier = "smtp"\n[notify.arguments]\nto = "ops@example.com"\n'
    (tmp_path / "mail.toml").write_text(text)
    file = layout.HOME.platform / "notifications.toml"
    for given, has in ((None, "# No person"), (str(tmp_path / "mail.toml"), text)):
        found = volumes(replace(context, notifications=given), DEFAULT)
        having = {name: volume.files[file] for name, volume in found.items() if file in volume.files}
        assert set(having) == {"airflow", "scheduler"}
        assert all(content.startswith(has) for content in having.values())


def test_no_service_has_another_s_secrets(context: Context) -> None:
    found = volumes(context, ON_SQL)
    assert secrets_in(found["postgres"]) == {"postgres_admin"}
    assert secrets_in(found["minio"]) == {"minio_root"}
    kafka_s = {name for name in SECRETS if name.startswith("kafka_")}
    assert secrets_in(found["kafka-1"]) == kafka_s
    # For each system, the secrets of a producer and a consumer; and the supervisor's.
    systems = ("kafka", "minio", "lake", "registry")
    roles = {f"{system}_{role}" for system in systems for role in ("producer", "consumer")}
    assert secrets_in(found["streams"]) == roles | {"supervisor"}
    assert secrets_in(found["spark"]) == roles | {"spark"}
    assert secrets_in(found["checks"]) == {"metrics"}
    reading = {f"{system}_observer" for system in ("kafka", "minio", "lake")}
    assert secrets_in(found["observer"]) == reading | {"supervisor", "observer"}
    administration = {"postgres_admin", "minio_root", "kafka_admin", "kafka_broker"}
    reader = {"kafka_reader", "lake_reader", "minio_reader", "registry_reader"}
    asking = {f"registry_{role}" for role in ("airflow", "producer", "consumer", "reader", "admin")}
    assert secrets_in(found["registry"]) == asking | {"postgres_registry"}
    administration |= {"registry_admin", "postgres_registry"}
    assert not secrets_in(found["scheduler"]) & (administration | reader)
    # What a browser reaches has no job's rights.
    maintenance = {"minio_maintenance", "lake_maintenance", "kafka_maintenance"}
    assert not secrets_in(found["airflow"]) & (administration | reader | roles | maintenance | {"spark"})
    assert "minio_airflow" in secrets_in(found["airflow"])


def test_on_a_rest_catalog_the_roles_have_its_tokens_and_no_login_of_its_database(context: Context) -> None:
    found = volumes(context, ALL)
    known = {f"catalog_{role}" for role in (*roles.CATALOG_READERS, *roles.CATALOG_WRITERS)}
    assert secrets_in(found["rest-catalog"]) == known | {"lake_catalog", "minio_catalog"}
    having = {name: secrets_in(volume) for name, volume in found.items() if name != "rest-catalog"}
    held = {name: {one for one in secrets if "catalog" in one} for name, secrets in having.items()}
    jobs = {"catalog_producer", "catalog_consumer"}
    assert {name: tokens for name, tokens in held.items() if tokens} == {
        "airflow": {"catalog_airflow"},
        "scheduler": {"catalog_airflow", "catalog_maintenance", *jobs},
        "streams": jobs,
        "spark": jobs,
        "observer": {"catalog_observer"},
    }
    assert not [name for name, secrets in having.items() if any(one.startswith("lake_") for one in secrets)]


def test_checks_are_reported_to_the_service_that_serves_them(context: Context) -> None:
    found, file = volumes(context, DEFAULT), layout.HOME.platform / "airflow.toml"
    wanted = {"token": SECRETS["metrics"], "checks_url": "http://checks:18082", "plain_text": True}
    for name in ("airflow", "scheduler", "checks"):
        assert tomllib.loads(found[name].files[file])["metrics"] == wanted
    assert "--host 0.0.0.0 --port 18082" in found["checks"].scripts["checks"]


def test_no_secret_is_an_argument_of_a_program(context: Context) -> None:
    for volume in volumes(context, ALL).values():
        for name, lines in volume.scripts.items():
            [command] = [line for line in lines.splitlines() if line.startswith("exec ")]
            assert not [secret for secret, value in SECRETS.items() if value in command], name


def test_three_brokers_replicate_and_know_each_other(context: Context) -> None:
    found = volumes(context, ALL)
    for number in (1, 2, 3):
        [properties] = [
            dict(line.split("=", 1) for line in content.splitlines())
            for path, content in found[f"kafka-{number}"].files.items()
            if path.name == "server.properties"
        ]
        assert properties["node.id"] == str(number)
        assert properties["advertised.listeners"] == f"CLIENT://kafka-{number}:19092"
        assert properties["controller.quorum.voters"] == "1@kafka-1:19093,2@kafka-2:19093,3@kafka-3:19093"
        assert (properties["default.replication.factor"], properties["min.insync.replicas"]) == ("3", "2")
        assert properties["offsets.topic.replication.factor"] == "3"
        assert properties["transaction.state.log.min.isr"] == "2"
    document = tomllib.loads(found["streams"].files[layout.HOME.platform / "consumer.toml"])
    assert document["kafka"]["bootstrap_servers"] == "kafka-1:19092,kafka-2:19092,kafka-3:19092"


def test_a_registry_is_found_by_those_who_may_ask_it(context: Context) -> None:
    found = volumes(context, ALL)
    (properties,) = found["registry"].files.values()
    settings = dict(line.split("=", 1) for line in properties.splitlines())
    address = "jdbc:postgresql://postgres:15432/registry?sslmode=disable"
    assert settings["apicurio.datasource.url"] == address
    # What has a login listens in its networks, what has none in the container.
    assert (settings["quarkus.http.host"], settings["quarkus.management.host"]) == (layout.ANY, HOST)
    told = registry_sections(found)
    assert set(told) == {
        *((volume, role) for volume in ("scheduler", "streams", "spark") for role in layout.JOBS),
        *((volume, "airflow") for volume in ("airflow", "scheduler")),
    }
    for (_, role), section in told.items():
        assert section["url"] == "http://registry:18084/apis/ccompat/v7"
        assert (section["username"], section["password"]) == (f"sluice-{role}", SECRETS[f"registry_{role}"])
        assert section["plain_text"] is True
    assert registry_sections(volumes(context, DEFAULT)) == {}


def registry_sections(found: dict[str, Volume]) -> dict[tuple[str, str], dict[str, Any]]:
    """(volume, role) -> [registry] of the platform file."""
    documents = {
        (volume.name, path.stem): tomllib.loads(content)
        for volume in found.values()
        for path, content in volume.files.items()
        if path.parent == layout.HOME.platform and path.suffix == ".toml"
    }
    return {key: document["registry"] for key, document in documents.items() if "registry" in document}


def test_one_broker_is_as_the_embedded_one(context: Context) -> None:
    [properties] = [
        content
        for path, content in volumes(context, DEFAULT)["kafka"].files.items()
        if path.name == "server.properties"
    ]
    embedded = kafka.server_properties(replace(context, secrets=SECRETS, home=layout.HOME))
    differing = {line.split("=")[0] for line in set(properties.splitlines()) ^ set(embedded.splitlines())}
    assert differing == {"listeners", "advertised.listeners", "controller.quorum.voters"}


def test_jobs_are_submitted_to_the_cluster_if_there_is_one(context: Context) -> None:
    plain, cluster = (text(volumes(context, chosen)["scheduler"]) for chosen in (DEFAULT, ALL))
    assert layout.SPARK_MASTER in cluster
    assert layout.SPARK_MASTER not in plain
    assert "spark.authenticate true" in cluster
    assert "spark.driver.host airflow-scheduler" in cluster
    assert "spark.driver.host 127.0.0.1" in plain


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "single-broker or cluster"),
        ("cluster", "single-drive or erasure"),
        ("cluster,single-broker,erasure", "single-broker or cluster"),
        ("cluster,erasure,tools", "tools"),
    ],
)
def test_profiles_that_do_not_fit_are_refused(given: str, said: str) -> None:
    with raising(UsageError, said, "Fix: "):
        profiles.parse(given)


def test_profiles_may_have_blanks() -> None:
    assert profiles.parse(" cluster, erasure,") == {"cluster", "erasure"}


def program(folder: Path, *command: str) -> Program:
    return Program("p", command, {"WORD": "it's $HOME"}, 1, folder)


def run(lines: str, folder: Path) -> subprocess.CompletedProcess[str]:
    file = folder / "start"
    file.write_text(lines)
    file.chmod(0o700)
    return subprocess.run([str(file)], capture_output=True, text=True, check=False)


def test_a_start_script_becomes_the_program_with_its_environment_and_folder(tmp_path: Path) -> None:
    ran = run(script(program(tmp_path, "sh", "-c", 'echo "$WORD"; pwd; umask')), tmp_path)
    assert ran.stdout.splitlines() == ["it's $HOME", str(tmp_path), "0077"]


def test_what_is_made_once_is_made_again_only_if_it_was_interrupted(tmp_path: Path) -> None:
    made, log = tmp_path / "made", tmp_path / "log"
    steps = (("sh", "-c", f"echo step >> {log}"), ("sh", "-c", f"[ -e {tmp_path}/ok ] && touch {made}"))
    lines = script(program(tmp_path, "echo", "started"), Once(made, steps))
    assert run(lines, tmp_path).returncode != 0
    (tmp_path / "ok").touch()
    assert [run(lines, tmp_path).stdout for _ in range(2)] == ["started\n"] * 2
    assert log.read_text().count("step") == 2
