"""What is asked of rights is what `k8s/` grants and what streams declare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from sluice.clients.kubernetes.pods import CONNECTIONS_SECRET
from sluice.config import streams
from sluice.config.platform import ROLES
from sluice.connection_check.needs import Needs, needs
from sluice.connection_check.rights.cluster import TOPICS, granted, verbs
from sluice.connection_check.rights.kafka import Rule, with_implied
from sluice.connection_check.rights.s3 import (
    DELETE,
    GET,
    LIST,
    PUT,
    Places,
    allows,
    s3_grants,
    samples,
)
from sluice.ledger.keys import OF_CHECKS

K8S = Path(__file__).resolve().parents[3] / "k8s"
PLACES = Places(
    "lake/tables", "ledger", "landing", files=("lake/out",), documents="docs/d", checkpoints="points/c"
)


def of_manifest(path: str) -> dict[tuple[str, str], tuple[str, ...]]:
    found: dict[Any, tuple[str, ...]] = {}
    for rule in yaml.safe_load((K8S / path).read_text())["rules"]:
        for group in rule["apiGroups"]:
            for kind in rule["resources"]:
                names = [f"{kind}:{name}" for name in rule.get("resourceNames", [])] or [kind]
                found |= {(group, name): tuple(rule["verbs"]) for name in names}
    return found


def test_the_manifests_grant_what_is_asked() -> None:
    tasks = of_manifest("base/role-runtime.yaml") | of_manifest("base/role-connections.yaml")
    assert granted("airflow") == tasks
    assert granted("observer") == of_manifest("components/observer/role.yaml")
    assert of_manifest("base/role-kafka-topics.yaml") == TOPICS
    assert ("", f"secrets:{CONNECTIONS_SECRET}") in tasks


def test_without_the_spark_operator_nothing_of_it_is_needed() -> None:
    native, whole = verbs("airflow", with_operator=False), verbs("airflow", with_operator=True)
    assert {group for group, _ in whole.keys() - native.keys()} == {"sparkoperator.k8s.io"}
    assert verbs("reader", with_operator=True) == {}


def test_kafka_allows_to_describe_what_may_be_read_or_written() -> None:
    assert with_implied(["WRITE"]) == {"WRITE", "DESCRIBE"}
    assert with_implied(["ALTER_CONFIGS"]) == {"ALTER_CONFIGS", "DESCRIBE_CONFIGS"}
    assert Rule("u", "group", "sluice-", True, "READ").is_on("group", "sluice-x")
    assert not Rule("u", "group", "sluice-", False, "READ").is_on("group", "sluice-x")
    assert not Rule("u", "topic", "sluice-", True, "READ").is_on("group", "sluice-x")


@pytest.mark.parametrize(
    ("action", "resource", "roles"),
    [
        (LIST, "landing", {"airflow", "producer"}),
        (LIST, "docs", {"airflow", "producer", "consumer", "reader", "observer"}),
        (PUT, "lake/tables/x/y", {"producer", "consumer"}),
        (PUT, "lake/out/y", {"consumer"}),
        (PUT, "docs/d/y", {"consumer"}),
        (PUT, "ledger/s/runs/x.json", {"airflow"}),
        (GET, "docs/d/y", {"airflow", "consumer", "reader", "observer"}),
        (GET, "landing/x.csv", {"airflow", "producer"}),
        (DELETE, "points/c/x", {"consumer"}),
        (DELETE, "lake/tables/x/data/y", {"maintenance"}),
        (DELETE, "lake/tables/x/loaded/y", set()),
        (DELETE, "lake/tables/x/batches/published/y", {"maintenance"}),
        (DELETE, "docs/d/x/batches/rolled-up/y", {"maintenance"}),
        (DELETE, "docs/d/x/without-record/y", {"maintenance"}),
        (DELETE, "lake/tables/x/batches/restored/y", set()),
        (PUT, "docs/d/x/batches/rolled-up/y", {"consumer", "maintenance"}),
        (GET, "docs/d/x/batches/rolled-up/y", {"airflow", "consumer", "reader", "observer", "maintenance"}),
        (GET, "docs/d/x/batches/published/y", {"airflow", "consumer", "reader", "observer"}),
        (PUT, "docs/d/x/batches/published/y", {"consumer"}),
        (DELETE, "ledger/s/portions/a/b.json", {"maintenance"}),
        (DELETE, "ledger/s/history/reconciled_table/x.json", {"maintenance"}),
        (DELETE, "ledger/s/history/passed_files/x.json", {"maintenance"}),
        (DELETE, "ledger/s/history/suspend/x.json", set()),
        (DELETE, "ledger/s/history/metadata/x.json", set()),
        (DELETE, "ledger/s/runs/x.json", set()),
    ],
)
def test_who_may_do_what_where(action: str, resource: str, roles: set[str]) -> None:
    grants = s3_grants(PLACES)
    assert {role for role in ROLES if allows(grants[role], action, resource)} == roles


def test_each_kind_of_records_of_checks_may_be_deleted() -> None:
    mine = s3_grants(PLACES)["maintenance"]
    assert all(allows(mine, DELETE, f"ledger/s/history/{kind}/x.json") for kind in OF_CHECKS)


def test_an_optional_right_counts_if_it_is_asked_for() -> None:
    mine, schema = s3_grants(PLACES)["producer"], "ledger/_registries/d/1.json"
    assert allows(mine, PUT, schema)
    assert not allows(mine, PUT, schema, optional=False)


def test_a_bucket_that_is_not_listed_by_declaration_is_not_asked() -> None:
    grants = s3_grants(Places("lake/tables", "ledger", "landing", is_listed=False))
    assert not [role for role in ROLES if allows(grants[role], LIST, "lake")]
    assert allows(grants["observer"], LIST, "ledger")
    assert allows(grants["airflow"], GET, "lake/tables/x")


def test_a_sample_is_of_each_place() -> None:
    found = samples(s3_grants(PLACES)["consumer"], "check")
    assert "lake/tables/check" in found
    assert "ledger/check/change.json" in found
    assert not [one for one in found if "*" in one]


def test_what_the_repositorys_streams_need() -> None:
    found = needs(streams.load_valid().specs)
    assert {"nyc-avro-topic", "sluice-progress"} <= {
        rule.name for rule in found.rules if rule.kind == "topic"
    }
    assert found.tables
    assert all(found.tables.values())
    assert found.prefixes == [one.strip("/") for one in found.prefixes]
    assert isinstance(needs([]), Needs)
