"""The taxi load in containers: verified after a killed broker, killed streams, an upgrade, a lost drive.

The tests share a project and need no order. A demo at the end of each reads every figure from its system.
"""

from __future__ import annotations

import gzip
import time
from typing import Any

import pytest

from local.demo.taxi import SAMPLE
from local.stack.stack import wait_until
from tests.compose.project import LOAD, SECONDS, Project
from tests.support import airflow_calls

pytestmark = pytest.mark.timeout(2400)
ROWS = 29_999
NEW_ROWS = 5_000
RUNNING = frozenset({"running", "deferred", "success"})
DRIVE = "/var/lib/sluice/data/drive-2"
PROGRAM = "stream-nyc_taxi"
# Is it reached? Without a client in the image.
REACHES = "exec 3<>/dev/tcp/$0/$1"


def assert_exact(figures: dict[str, Any]) -> None:
    """Each record of the topic is in the lake or in its quarantine, once."""
    assert figures["state"] == "success"
    assert (figures["gaps"], figures["duplicates"]) == (0, 0)
    assert figures["source_rows"] == ROWS
    assert figures["lake_rows"] + figures["quarantined"] == figures["topic_records"] >= ROWS


def rides(first: int) -> list[str]:
    """A file's lines: the sample's header, and rows of it that were no file's first."""
    lines = gzip.decompress(SAMPLE.read_bytes()).decode().splitlines()
    return [lines[0], *lines[1 + first : 1 + first + NEW_ROWS]]


def test_a_load_is_verified_although_a_broker_and_the_streams_are_killed(platform: Project) -> None:
    demo = platform.demo()
    run_id = demo.run_id()
    platform.wait_task(run_id, "produce", RUNNING)
    platform.docker("kill", platform.container("kafka-2")["Id"])
    platform.wait_task(run_id, "wait_for_publish", RUNNING)
    platform.crash("streams")
    assert_exact(demo.figures())
    assert platform.container("kafka-2")["State"]["Running"] is False
    platform.compose("start", "kafka-2")
    platform.wait_healthy("kafka-2")
    said = topic(platform)
    assert "ReplicationFactor: 3" in said
    assert "min ISR: 2" in said
    wait_until("all replicas are in sync", lambda: "in sync: 10 of 10" in topic(platform), SECONDS, 2)
    assert_exact(platform.demo().figures())


def topic(platform: Project) -> str:
    return platform.run_in("airflow-scheduler", "python", "-c", TOPIC)


TOPIC = """
from confluent_kafka.admin import AdminClient, ConfigResource
from sluice.clients.kafka.login.properties import librdkafka
from sluice.config import platform
kafka = librdkafka(platform.load("airflow").kafka)
admin, name = AdminClient(kafka), "nyc-avro-topic"
partitions = admin.list_topics(name, timeout=30).topics[name].partitions
[config] = admin.describe_configs([ConfigResource("topic", name)]).values()
print("min ISR:", config.result(30)["min.insync.replicas"].value)
print("ReplicationFactor:", min(len(one.replicas) for one in partitions.values()))
print("in sync:", sum(len(one.isrs) == 3 for one in partitions.values()), "of", len(partitions))
"""


def test_what_is_submitted_runs_on_the_cluster(platform: Project) -> None:
    assert_exact(platform.demo().figures())
    # The folders of the executors: the jobs of loads that are not over for long.
    assert "app-" in platform.run_in("spark-worker", "bash", "-c", "ls -d tmp/app-*/*/stderr")


def test_down_and_up_lose_nothing(platform: Project) -> None:
    before = platform.demo().figures()
    runs = {run["dag_run_id"] for run in platform.runs()}
    platform.compose("--profile", "*", "down")
    platform.up()
    after = platform.demo().figures()
    assert_exact(after)
    counted = ("topic_records", "lake_rows", "quarantined")
    assert {name: after[name] for name in counted} == {name: before[name] for name in counted}
    kept = {run["dag_run_id"] for run in platform.runs()}
    assert runs < kept


def test_images_are_upgraded_under_a_running_stream(platform: Project) -> None:
    before = platform.demo().figures()
    platform.put(f"upgrade-{time.time_ns()}.csv", rides(0))
    containers, stops = ids(platform), graceful_stops(platform)
    with (platform.checkout / "spark_jobs" / "__main__.py").open("a") as file:
        file.write(f"# {time.time_ns()}\n")
    began = time.monotonic()
    platform.build()
    print(f"rebuilt after a change of a job in {time.monotonic() - began:.1f} s")
    run_id = platform.airflow.trigger(LOAD, {})
    platform.wait_task(run_id, "produce", frozenset({"success"}))
    platform.up()
    now = ids(platform)
    assert {name for name in now if now[name] != containers[name]} == {"streams", "airflow-scheduler"}
    assert graceful_stops(platform) == stops + 1
    state = platform.airflow.wait(LOAD, run_id, SECONDS)
    airflow_calls.print_failed(platform.airflow, LOAD, run_id)
    assert state == "success"
    after = platform.demo().figures()
    assert_exact(after)
    assert after["topic_records"] == before["topic_records"] + NEW_ROWS


def ids(platform: Project) -> dict[str, str]:
    services = ("streams", "airflow-scheduler", "kafka-1", "postgres", "minio-erasure")
    return {service: platform.container(service)["Id"] for service in services}


def graceful_stops(platform: Project) -> int:
    return platform.run_in("streams", "cat", f"logs/{PROGRAM}.log").count("stopped on request")


def test_a_lost_drive_loses_nothing(platform: Project) -> None:
    before = platform.demo().figures()
    platform.run_in("minio-erasure", "bash", "-c", f"rm -rf {DRIVE}/.minio.sys {DRIVE}/*")
    platform.compose("restart", "minio-erasure")
    platform.wait_healthy("minio-erasure")
    after = platform.demo().figures()
    assert_exact(after)
    assert after["lake_rows"] == before["lake_rows"]


def test_checks_are_served_although_airflow_s_database_is_down(platform: Project) -> None:
    assert_exact(platform.demo().figures())
    began = time.time()
    wait_until("a check is reported", lambda: platform.last_check() > began, SECONDS, 2)
    platform.compose("stop", "airflow-triggerer", "postgres")
    try:
        platform.compose("restart", "checks")
        platform.wait_healthy("checks")
        assert platform.last_check() > began, "over a restart too"
    finally:
        platform.up()
    began = time.time()
    wait_until("checks go on", lambda: platform.last_check() > began, SECONDS, 2)


REGISTER = """
from sluice.clients.registry.client import RegistryClient
from sluice.config import platform
client = RegistryClient(platform.load("airflow").registry)
print(client.register("rides-value", '{"type": "record", "name": "Ride", "fields": []}'))
"""
READ = """
import sys
from sluice.clients.registry.client import RegistryClient
from sluice.config import platform
print(RegistryClient(platform.load("consumer").registry).bundle(int(sys.argv[1])).definition.text)
"""


def test_the_registry_keeps_its_schemas_when_it_crashes(platform: Project) -> None:
    schema_id = platform.run_in("airflow-scheduler", "python", "-c", REGISTER).strip()
    platform.crash("registry")
    platform.wait_healthy("registry")
    assert '"Ride"' in platform.run_in("streams", "python", "-c", READ, schema_id)
    assert platform.run_in("airflow-scheduler", "python", "-c", REGISTER).strip() == schema_id


def test_only_what_must_talk_can(platform: Project) -> None:
    def reaches(service: str, host: str, port: int) -> bool:
        script = f"timeout 5 bash -c '{REACHES}' {host} {port} && echo yes || echo no"
        return platform.run_in(service, "bash", "-c", script).strip() == "yes"

    allowed = [
        ("airflow-scheduler", "kafka-1", 19092),
        ("streams", "minio", 19000),
        ("airflow-scheduler", "supervisor", 19001),
        ("streams", "postgres", 15432),
        ("airflow-triggerer", "checks", 18082),
        ("streams", "registry", 18084),
        ("spark-worker", "registry", 18084),
    ]
    assert all(reaches(*one) for one in allowed)
    refused = [
        # It tells of runs that timed out, and reads the ledger for that; it starts and stops no stream.
        ("airflow-dag-processor", "supervisor", 19001),
        ("spark-worker", "postgres", 15432),
        ("kafka-1", "postgres", 15432),
        ("minio-erasure", "streams", 19001),
        ("minio-erasure", "supervisor", 19001),
        ("spark-worker", "streams", 19001),
        ("postgres", "kafka-1", 19092),
        ("airflow-api-server", "checks", 18082),
        ("airflow-scheduler", "checks", 18082),
        ("checks", "postgres", 15432),
        ("checks", "minio", 19000),
        ("checks", "registry", 18084),
    ]
    assert not [one for one in refused if reaches(*one)]
    published = {
        binding["HostIp"]
        for service in platform.compose("ps", "--services").split()
        for bindings in platform.container(service)["NetworkSettings"]["Ports"].values()
        for binding in bindings or ()
    }
    assert published == {"127.0.0.1"}


def test_no_secret_is_in_an_image_or_shown_by_docker(platform: Project) -> None:
    services = platform.compose("ps", "--services", "--all").split()
    shown = [str(platform.container(service)) for service in services]
    images = platform.docker("image", "ls", "--format", "{{.Repository}}", f"{platform.name}/*").split()
    assert len(images) == 6
    shown += [platform.docker("history", "--no-trunc", image) for image in images]
    shown += [platform.compose("logs", "--no-color")]
    passwords = [value for name, value in platform.secrets.items() if "_" in name and name != "kafka_cluster"]
    assert not [value[:3] for value in passwords for text in shown if value in text]
    for image in images:
        script = 'grep -rlE "$0" /etc /opt/sluice/app /var/lib /usr/local/bin 2>/dev/null || true'
        pattern = "|".join(passwords)
        assert platform.docker("run", "--rm", "--entrypoint", "sh", image, "-c", script, pattern) == ""


@pytest.mark.parametrize(
    "service", ["postgres", "kafka-1", "minio-erasure", "streams", "checks", "airflow-scheduler", "registry"]
)
def test_processes_are_confined(platform: Project, service: str) -> None:
    found = platform.container(service)
    assert found["HostConfig"]["ReadonlyRootfs"] is True
    assert platform.run_in(service, "id", "-u").strip() == "10001"
    assert (
        platform.run_in(service, "bash", "-c", "touch /opt/x 2>/dev/null || echo refused").strip()
        == "refused"
    )
    status = platform.run_in(service, "cat", "/proc/self/status")
    assert "CapEff:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status
