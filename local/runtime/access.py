"""Least privilege as plain data: who may do what in Kafka and in S3."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sluice.model.spec.stream import PROGRESS_TOPIC

WAREHOUSE = "warehouse"
SOURCE = "source"


@dataclass(frozen=True)
class Rule:
    """One thing that a Kafka user may do. `kind`: topic, group, transactional_id or broker (the cluster)."""

    user: str
    kind: str
    name: str
    prefixed: bool
    operation: str


def kafka_user(role: str) -> str:
    return f"sluice-{role}"


def kafka_rules(topics: Iterable[str], results: Iterable[str] = ()) -> list[Rule]:
    """Everything the four roles may do on the streams' topics, and on those of their queries' ``results``;
    what is not listed is refused by the broker."""
    rules: list[Rule] = []

    def allow(role: str, kind: str, name: str, operations: str, prefixed: bool = False) -> None:
        rules.extend(
            Rule(kafka_user(role), kind, name, prefixed, operation) for operation in operations.split()
        )

    for topic in topics:
        allow("airflow", "topic", topic, "CREATE ALTER DESCRIBE ALTER_CONFIGS DESCRIBE_CONFIGS")
        allow("producer", "topic", topic, "WRITE DESCRIBE READ")
        allow("consumer", "topic", topic, "READ DESCRIBE")
        allow("reader", "topic", topic, "READ DESCRIBE")
    for topic in results:
        # Airflow checks what they hold. Setting a group's offsets wants Read on the topic.
        allow("airflow", "topic", topic, "CREATE ALTER DESCRIBE ALTER_CONFIGS DESCRIBE_CONFIGS READ")
        allow("consumer", "topic", topic, "WRITE DESCRIBE READ")
        allow("reader", "topic", topic, "READ DESCRIBE")
    progress = PROGRESS_TOPIC.name
    allow("airflow", "topic", progress, "CREATE ALTER DESCRIBE ALTER_CONFIGS DESCRIBE_CONFIGS READ")
    allow("consumer", "topic", progress, "WRITE DESCRIBE")
    allow("reader", "topic", progress, "READ DESCRIBE")
    allow("consumer", "transactional_id", "sluice-", "WRITE DESCRIBE", prefixed=True)
    allow("airflow", "group", "sluice-", "DESCRIBE", prefixed=True)
    allow("producer", "broker", "kafka-cluster", "IDEMPOTENT_WRITE")
    for role in ("producer", "consumer", "reader"):
        # Spark makes its own group names under its prefix, for streams (-source) and for batches (-relation).
        allow(role, "group", "spark-kafka-", "READ DESCRIBE", prefixed=True)
    allow("producer", "group", "sluice-", "READ DESCRIBE", prefixed=True)
    allow("consumer", "group", "sluice-", "READ DESCRIBE", prefixed=True)
    allow("reader", "group", "sluice-reader", "READ DESCRIBE", prefixed=True)
    return rules


_READ = ["s3:GetObject", "s3:GetObjectVersion"]
_WRITE = ["s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"]
_LIST = ["s3:ListBucket", "s3:GetBucketLocation"]
_VERSIONS = ["s3:ListBucketVersions", "s3:GetBucketVersioning", "s3:ListBucketMultipartUploads"]


def s3_policies() -> dict[str, dict[str, Any]]:
    """One policy per role. None may delete: what was written stays until a person removes it."""
    ledger, lake = f"{WAREHOUSE}/ledger/*", f"{WAREHOUSE}/lake/*"
    # The plain files of queries: the prefixes of sinks begin with files/.
    files = f"{WAREHOUSE}/files/*"
    return {
        "airflow": _policy(
            (_LIST + _VERSIONS, [WAREHOUSE, SOURCE]),
            (_READ, [f"{WAREHOUSE}/*", f"{SOURCE}/*"]),
            (["s3:PutObject"], [ledger]),
        ),
        "producer": _policy(
            (_LIST, [WAREHOUSE, SOURCE]),
            (_READ, [f"{SOURCE}/*", ledger, lake]),
            (_WRITE, [lake]),
        ),
        "consumer": _policy(
            (_LIST, [WAREHOUSE]),
            (_READ + _WRITE, [lake, files]),
        ),
        "reader": _policy((_LIST, [WAREHOUSE]), (_READ, [lake, files])),
    }


def _policy(*grants: tuple[list[str], list[str]]) -> dict[str, Any]:
    statements = [
        {"Effect": "Allow", "Action": actions, "Resource": [f"arn:aws:s3:::{name}" for name in resources]}
        for actions, resources in grants
    ]
    return {"Version": "2012-10-17", "Statement": statements}
