"""`python -m local.containers configure|provision|image`: what runs once, of docker-compose.yaml, of
k8s/overlays, and of docker/Dockerfile."""

from __future__ import annotations

import os
import sys

from local.base import UsageError, exit_code
from local.containers import cluster, image, provision
from local.containers.cluster import ClusterStack
from local.containers.stack import ContainerStack


def main(arguments: list[str]) -> int:
    is_cluster = cluster.NAMESPACE_VARIABLE in os.environ
    match arguments:
        case ["configure"]:
            return cluster.configure(ClusterStack()) if is_cluster else provision.configure(ContainerStack())
        case ["provision"]:
            return provision.provision(ClusterStack() if is_cluster else ContainerStack())
        case ["image"]:
            return image.write()
    raise UsageError(f"unknown arguments {arguments}. Fix: give configure, provision or image")


if __name__ == "__main__":
    sys.exit(exit_code(main))
