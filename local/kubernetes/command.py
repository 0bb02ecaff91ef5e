"""`make k8s-render ARGS="users"`: YAML for `kubectl apply --server-side -f -`.

`passwords` is for `kubectl create -f -`, which refuses to replace what is there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence

import yaml

from local.kubernetes.users import Resource, kafka_users
from local.runtime.home import complete_secrets
from local.services import streams
from sluice.model.spec import stream

NAMESPACE, CLUSTER = "sluice", "kafka"
# With the passwords of all services, for the pods that configure and provision them.
PASSWORDS = "sluice-passwords"


def users(options: argparse.Namespace) -> list[Resource]:
    topics = [spec.topic.name for spec in stream.load_all()]
    return kafka_users(topics, streams.result_topics(), options.namespace, options.cluster)


def passwords(options: argparse.Namespace) -> list[Resource]:
    """New ones at each call: the data can be opened with those of their time only."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": PASSWORDS, "namespace": options.namespace},
            "stringData": {"sluice": json.dumps(complete_secrets({}))},
        }
    ]


RENDERERS: dict[str, Callable[[argparse.Namespace], list[Resource]]] = {
    "passwords": passwords,
    "users": users,
}


def main(arguments: Sequence[str]) -> int:
    """Print the resources of one of RENDERERS."""
    parser = argparse.ArgumentParser(prog="make k8s-render")
    parser.add_argument("what", choices=list(RENDERERS))
    parser.add_argument("--namespace", default=NAMESPACE, help=f"of the resources (default: {NAMESPACE})")
    parser.add_argument("--cluster", default=CLUSTER, help=f"name of the Kafka resource (default: {CLUSTER})")
    options = parser.parse_args(arguments)
    print(yaml.safe_dump_all(RENDERERS[options.what](options), sort_keys=False), end="")
    return 0
