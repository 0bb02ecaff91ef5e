"""`make k8s-render ARGS="users"`: YAML for `kubectl apply --server-side -f -`.

`passwords` (local.kubernetes.passwords) needs no set-up.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import yaml

from local.kubernetes.passwords import NAMESPACE
from local.kubernetes.users import Resource, kafka_users
from local.services import streams
from sluice.config import stream

CLUSTER = "kafka"


def users(options: argparse.Namespace) -> list[Resource]:
    # All or none: applied without an invalid stream's, they would take its users' rights away.
    topics = [spec.topic.name for spec in stream.load_all()]
    return kafka_users(topics, streams.result_topics(), options.namespace, options.cluster)


RENDERERS: dict[str, Callable[[argparse.Namespace], list[Resource]]] = {"users": users}


def main(arguments: Sequence[str]) -> int:
    """Print the resources of one of RENDERERS."""
    parser = argparse.ArgumentParser(prog="make k8s-render")
    parser.add_argument("what", choices=list(RENDERERS))
    parser.add_argument("--namespace", default=NAMESPACE, help=f"of the resources (default: {NAMESPACE})")
    parser.add_argument("--cluster", default=CLUSTER, help=f"name of the Kafka resource (default: {CLUSTER})")
    options = parser.parse_args(arguments)
    print(yaml.safe_dump_all(RENDERERS[options.what](options), sort_keys=False), end="")
    return 0
