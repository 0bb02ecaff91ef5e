"""The stack of a cluster's pods without artifacts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from local.containers import layout
from local.containers.cluster import ClusterStack
from local.runtime.context import Context
from local.runtime.ports import DEFAULTS, Network
from local.runtime.secrets import complete_secrets

SECRETS = complete_secrets({})


class FakeArtifacts(ClusterStack):
    """With a context of paths that need not exist."""

    def __init__(self, context: Context, folder: Path, cluster: str = "", **environ: str) -> None:
        """``cluster``: name of Strimzi's Kafka resource; empty for the plain pod."""
        file = folder / "secrets"
        file.write_text(json.dumps(SECRETS))
        given = {"SLUICE_NAMESPACE": "lake"}
        super().__init__(file, given | {"SLUICE_STRIMZI_CLUSTER": cluster} | environ)
        network = Network(DEFAULTS, bind=layout.ANY, hosts=layout.HOSTS)
        self._context = replace(context, network=network, secrets=SECRETS, home=layout.HOME)

    @property
    def image(self) -> str:
        return self._environ.get("IMAGE", "sluice/airflow:0.1.0")

    @property
    def context(self) -> Context:
        return self._context
