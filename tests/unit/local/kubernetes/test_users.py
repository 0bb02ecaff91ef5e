"""Strimzi's users have the rights of the embedded stack's, except those that its topic operator replaces."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from local.kubernetes import command
from local.kubernetes.users import kafka_users
from local.runtime.roles import KAFKA_PASSWORDS
from local.services import streams
from sluice.config import streams as stream_files
from sluice.connection_check.rights.kafka import Rule, kafka_rules, kafka_user

TOPICS, RESULTS = ["rides", "edits"], ["editors"]
# Strimzi's words, from its definition of KafkaUser, and those of the rules.
OPERATIONS = {
    "Read": "READ",
    "Write": "WRITE",
    "Describe": "DESCRIBE",
    "DescribeConfigs": "DESCRIBE_CONFIGS",
    "IdempotentWrite": "IDEMPOTENT_WRITE",
}
KINDS = {"topic": "topic", "group": "group", "transactionalId": "transactional_id"}
PATTERNS = {"literal": False, "prefix": True}


def users(topics: list[str] = TOPICS, results: list[str] = RESULTS) -> dict[str, dict[str, Any]]:
    found = kafka_users(topics, results, "sluice", "kafka")
    return {user["metadata"]["name"]: user for user in found}


def rules(user: dict[str, Any]) -> list[Rule]:
    """The user's rights as the embedded stack writes them."""
    found = []
    for acl in user["spec"]["authorization"]["acls"]:
        resource, name = acl["resource"], user["metadata"]["name"]
        for operation in acl["operations"]:
            if resource["type"] == "cluster":
                assert resource == {"type": "cluster"}
                found.append(Rule(name, "broker", "kafka-cluster", False, OPERATIONS[operation]))
                continue
            prefixed = PATTERNS[resource["patternType"]]
            kind = KINDS[resource["type"]]
            found.append(Rule(name, kind, resource["name"], prefixed, OPERATIONS[operation]))
    return found


@pytest.mark.parametrize("results", [[], RESULTS, ["rides"]])
def test_every_right_is_there_once_and_no_other(results: list[str]) -> None:
    replaced = {"CREATE", "ALTER", "ALTER_CONFIGS"}
    expected = [
        rule
        for rule in kafka_rules(TOPICS, results)
        if not (rule.user == "sluice-airflow" and rule.kind == "topic" and rule.operation in replaced)
    ]
    found = [rule for user in users(TOPICS, results).values() for rule in rules(user)]
    assert sorted(found, key=repr) == sorted(set(expected), key=repr)
    assert not [rule for rule in found if rule.operation in replaced]


def test_only_roles_that_use_kafka_are_users() -> None:
    assert set(users()) == {
        kafka_user(role) for role in ("airflow", "producer", "consumer", "reader", "observer")
    }


def test_a_producer_as_it_is_applied() -> None:
    user = users(["rides"], [])["sluice-producer"]
    assert user == {
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": "KafkaUser",
        "metadata": {
            "name": "sluice-producer",
            "namespace": "sluice",
            "labels": {"strimzi.io/cluster": "kafka"},
        },
        "spec": {
            "authentication": {
                "type": "scram-sha-512",
                "password": {"valueFrom": {"secretKeyRef": {"name": KAFKA_PASSWORDS, "key": "producer"}}},
            },
            "authorization": {
                "type": "simple",
                "acls": [
                    {
                        "resource": {"type": "topic", "name": "rides", "patternType": "literal"},
                        "operations": ["Write", "Describe", "Read"],
                    },
                    {
                        "resource": {
                            "type": "topic",
                            "name": "sluice-feed-positions",
                            "patternType": "literal",
                        },
                        "operations": ["Write", "Describe", "Read"],
                    },
                    {
                        "resource": {
                            "type": "transactionalId",
                            "name": "sluice-feed-",
                            "patternType": "prefix",
                        },
                        "operations": ["Write", "Describe"],
                    },
                    {"resource": {"type": "cluster"}, "operations": ["IdempotentWrite"]},
                    {
                        "resource": {"type": "group", "name": "spark-kafka-", "patternType": "prefix"},
                        "operations": ["Read", "Describe"],
                    },
                    {
                        "resource": {"type": "group", "name": "sluice-", "patternType": "prefix"},
                        "operations": ["Read", "Describe"],
                    },
                ],
            },
        },
    }


def test_the_command_prints_the_users_of_the_declared_streams(capsys: pytest.CaptureFixture[str]) -> None:
    command.print_users("lake", "brokers")
    printed = list(yaml.safe_load_all(capsys.readouterr().out))
    topics = [spec.topic.name for spec in stream_files.load_all()]
    assert printed == kafka_users(topics, streams.result_topics(), "lake", "brokers")
    assert len(printed) == 5
    assert topics
