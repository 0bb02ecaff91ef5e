"""Strimzi's KafkaUser of each role, with the rights that the embedded stack gives it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from local.runtime.roles import KAFKA_PASSWORDS
from sluice.clients.kafka import strimzi
from sluice.config.platform import ROLES
from sluice.connection_check.rights.kafka import Rule, is_operators, kafka_rules, kafka_user

KIND = "KafkaUser"
# Resource types by Strimzi's names. The cluster has no name of its own there.
RESOURCES = {"topic": "topic", "group": "group", "transactional_id": "transactionalId", "broker": "cluster"}

Resource = dict[str, Any]


def kafka_users(
    topics: Iterable[str],
    results: Iterable[str],
    namespace: str,
    cluster: str,
    others: Mapping[str, str] | None = None,
) -> list[Resource]:
    """One per role that uses Kafka. ``cluster``: name of the Kafka resource; ``others``: as of
    ``kafka_rules``."""
    # Once each: a query's result may go to the topic of a stream.
    rules = dict.fromkeys(rule for rule in kafka_rules(topics, results, others) if not is_operators(rule))
    granted = {role: [rule for rule in rules if rule.user == kafka_user(role)] for role in ROLES}
    return [_user(role, found, namespace, cluster) for role, found in granted.items() if found]


def _user(role: str, rules: Iterable[Rule], namespace: str, cluster: str) -> Resource:
    password = {"valueFrom": {"secretKeyRef": {"name": KAFKA_PASSWORDS, "key": role}}}
    return {
        "apiVersion": f"{strimzi.GROUP}/{strimzi.VERSION}",
        "kind": KIND,
        "metadata": {
            "name": kafka_user(role),
            "namespace": namespace,
            "labels": {strimzi.CLUSTER_LABEL: cluster},
        },
        "spec": {
            "authentication": {"type": "scram-sha-512", "password": password},
            "authorization": {"type": "simple", "acls": acls(rules)},
        },
    }


def acls(rules: Iterable[Rule]) -> list[Resource]:
    """One entry per resource, with all operations on it."""
    operations: dict[tuple[str, str, bool], list[str]] = {}
    for rule in rules:
        operations.setdefault((rule.kind, rule.name, rule.prefixed), []).append(_operation(rule.operation))
    return [{"resource": _resource(*key), "operations": found} for key, found in operations.items()]


def _resource(kind: str, name: str, prefixed: bool) -> Resource:
    if kind == "broker":
        return {"type": RESOURCES[kind]}
    return {"type": RESOURCES[kind], "name": name, "patternType": "prefix" if prefixed else "literal"}


def _operation(name: str) -> str:
    """IDEMPOTENT_WRITE is IdempotentWrite."""
    return name.title().replace("_", "")
