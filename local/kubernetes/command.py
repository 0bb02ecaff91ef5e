"""`local/run k8s-render users`: YAML for `kubectl apply --server-side -f -`."""

from __future__ import annotations

import yaml

from local.kubernetes.passwords import NAMESPACE
from local.kubernetes.users import Resource, kafka_users
from local.services import streams
from sluice.config import streams as stream_files
from sluice.connection_check.needs import topics as declared_topics

CLUSTER = "kafka"


def users(namespace: str = NAMESPACE, cluster: str = CLUSTER) -> list[Resource]:
    """Kafka's users of the declared streams. Raises ConfigError if a stream is invalid."""
    # All or none: applied without an invalid stream's, they would take its users' rights away.
    topics, others = declared_topics(stream_files.load_all())
    return kafka_users(topics, streams.result_topics(), namespace, cluster, others)


def print_users(namespace: str = NAMESPACE, cluster: str = CLUSTER) -> None:
    """Print them. `cluster`: name of the Kafka resource."""
    print(yaml.safe_dump_all(users(namespace, cluster), sort_keys=False), end="")
