"""Pods of a role with an identity: its account, Secret, tokens and labels, and no other role's."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sluice.airflow.operators.jobs.job_pod import job_pod
from sluice.clients.kubernetes.jobs import component_job
from sluice.clients.kubernetes.pods import SPARK_JOB, PodJob, executor_template, pod_spec, settings
from sluice.clients.kubernetes.spark_application import component_application
from sluice.config import platform, streams
from sluice.config.platform_sections.kubernetes import Identity, Kubernetes
from sluice.config.reading.toml import ConfigError, secrets
from sluice.config.sections.cluster import TEMPLATE_VARIABLE, WRITTEN_TEMPLATE, Cluster
from sluice.config.stream import SourceType
from spark_jobs.common.spark.session import write_executor_template
from tests.support.raising import raising
from tests.unit.config.test_platform import PLATFORM

AZURE = {"azure.workload.identity/use": "true"}
IDENTITY = Identity("sluice-consumer", "consumer-secrets", {"kafka": "kafka.test", "s3": "sts.test"}, AZURE)
CONFIG = Kubernetes("sluice", "registry.test/jobs:1", identities={"consumer": IDENTITY})
PLAIN = Kubernetes("sluice", "registry.test/jobs:1")
TAXI = streams.load("nyc_taxi")
TEN = replace(TAXI, cluster=Cluster(executors=10))
FEED = next(spec for spec in streams.load_all() if spec.source is SourceType.FEED)
TOKENS = [
    {"serviceAccountToken": {"path": name, "audience": audience, "expirationSeconds": 3600}}
    for name, audience in IDENTITY.tokens.items()
]


def check(spec: dict[str, Any]) -> None:
    assert spec["serviceAccountName"] == "sluice-consumer"
    found = {volume["name"]: volume for volume in spec["volumes"]}
    assert found["secrets"]["secret"] == {"secretName": "consumer-secrets", "defaultMode": 0o440}
    assert found["tokens"]["projected"] == {"sources": TOKENS, "defaultMode": 0o440}
    mounts = {one["name"]: one for one in spec["containers"][0]["volumeMounts"]}
    for name in ("secrets", "tokens"):
        assert mounts[name] == {"name": name, "mountPath": f"/var/lib/sluice/{name}", "readOnly": True}


def variables(spec: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one.get("value") for one in spec["containers"][0]["env"]}


@pytest.mark.parametrize("job", ["consumer", "queries", "compact"])
def test_each_job_of_the_role_has_it(job: str) -> None:
    check(pod_spec(PodJob(TAXI, job), CONFIG))


def test_a_pod_of_another_role_has_none_of_it() -> None:
    assert pod_spec(PodJob(TAXI, "producer"), CONFIG) == pod_spec(PodJob(TAXI, "producer"), PLAIN)
    assert settings(PodJob(TEN, "producer"), CONFIG) == settings(PodJob(TEN, "producer"), PLAIN)


def test_a_component_s_job_and_a_bounded_job_have_the_labels() -> None:
    template = component_job(TAXI, TAXI.components["consumer"], CONFIG)["spec"]["template"]
    assert template["metadata"]["labels"].items() >= AZURE.items()
    pod = job_pod("x", PodJob(TAXI, "compact", label=SPARK_JOB), CONFIG)
    assert pod.full_pod_spec is not None
    assert pod.full_pod_spec.metadata.labels.items() >= AZURE.items()
    assert pod.full_pod_spec.spec.service_account_name == "sluice-consumer"


def test_executors_have_it_by_a_template_that_the_driver_writes(tmp_path: Path) -> None:
    job = PodJob(TEN, "consumer")
    template = variables(pod_spec(job, CONFIG))[TEMPLATE_VARIABLE]
    assert json.loads(template) == executor_template("consumer", identity=IDENTITY)
    check(json.loads(template)["spec"])
    made = settings(job, CONFIG)
    assert made["spark.kubernetes.executor.podTemplateFile"] == WRITTEN_TEMPLATE
    assert made["spark.kubernetes.executor.label.azure.workload.identity/use"] == "true"
    (scratch,) = [m for m in pod_spec(job, CONFIG)["containers"][0]["volumeMounts"] if m["name"] == "scratch"]
    assert str(Path(WRITTEN_TEMPLATE).parent) == scratch["mountPath"], "which it may write"
    write_executor_template({TEMPLATE_VARIABLE: template}, str(tmp_path / "executor.yaml"))
    assert (tmp_path / "executor.yaml").read_text() == template
    write_executor_template({}, str(tmp_path / "none.yaml"))
    assert not (tmp_path / "none.yaml").exists()


def test_without_executors_or_an_identity_there_is_no_template_to_write() -> None:
    for job, config in ((PodJob(TAXI, "consumer"), CONFIG), (PodJob(TEN, "consumer"), PLAIN)):
        assert TEMPLATE_VARIABLE not in variables(pod_spec(job, config))


def test_the_spark_operator_gets_it_in_its_resource() -> None:
    config = replace(CONFIG, mode="operator")
    made = component_application(TEN, TEN.components["consumer"], config)
    check(made["spec"]["driver"]["template"]["spec"])
    check(made["spec"]["executor"]["template"]["spec"])
    assert made["metadata"]["labels"].items() >= AZURE.items()
    assert TEMPLATE_VARIABLE not in variables(made["spec"]["driver"]["template"]["spec"])


def declared(text: str) -> platform.Platform:
    where = '\n[kubernetes]\nnamespace = "sluice"\nimage = "x"\n'
    return platform.parse(f"{PLATFORM}{where}{text}", "airflow.toml")


def test_an_identity_is_declared_by_role() -> None:
    made = declared("""
[kubernetes.identities.consumer]
service_account = "sluice-consumer"
secrets = "consumer-secrets"
tokens = {kafka = "kafka.test", s3 = "sts.test"}
labels = {"azure.workload.identity/use" = "true"}
""")
    assert made.kubernetes
    assert made.kubernetes.identity("consumer") == IDENTITY
    assert made.kubernetes.identity("producer") == Identity()
    assert secrets(made) == ['pa"ss\\word', "hidden", "p@ss/word"], "none of it is secret"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[kubernetes.identities.airflow]", "identities has 'airflow', whose pods are made by no task. Fix"),
        ('[kubernetes.identities.consumer]\nsecrets = "My Secret"', "secrets is 'My Secret', no name of a"),
        ('[kubernetes.identities.consumer]\ntokens = {"a/b" = "x"}', "tokens has 'a/b' = 'x'. Fix"),
        ('[kubernetes.identities.consumer]\ntokens = {a = ""}', "tokens has 'a' = ''. Fix"),
        ('[kubernetes.identities.consumer]\nlabels = {"a b" = "x"}', "labels has 'a b' = 'x'. Fix"),
        ('[kubernetes.identities.consumer]\nlabels = {"sluice.io/stream" = "x"}', "by which pods are found"),
        ('[kubernetes.identities.consumer]\naccount = "x"', "unknown key 'account'"),
    ],
)
def test_an_identity_that_no_pod_can_have_is_refused(text: str, words: str) -> None:
    with raising(ConfigError, words):
        declared(text)
