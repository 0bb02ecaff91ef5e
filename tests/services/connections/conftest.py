"""Kafka, MinIO and PostgreSQL with the roles' rights, started once for all modules."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from local.services import kafka
from sluice.config import streams
from sluice.connection_check.needs import results, topics
from tests.support.services import Services


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    made = Services(tmp_path_factory.mktemp("connections"))
    try:
        specs = streams.load_valid().specs
        own, others = topics(specs)
        made.kafka  # noqa: B018
        kafka.provision(made.stack.context, own, results(specs), others)
        made.make_topic(own[0], 1)
        made.minio  # noqa: B018
        made.postgres  # noqa: B018
        yield made
    finally:
        made.stop()
