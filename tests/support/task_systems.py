"""What a task of a load or of reconciliation asks, over the services of tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from types import SimpleNamespace
from typing import Any

from sluice.clients.catalogs.vended import client_of
from sluice.clients.kafka.admin import KafkaAdmin
from sluice.clients.lake.catalog import Lake
from sluice.clients.s3.objects import Bucket
from sluice.config.platform import Platform
from sluice.ledger.batches import BatchLog


@contextmanager
def task_systems(platform: Platform) -> Iterator[Any]:
    """In place of ``sluice.systems.Systems``, with the rights that ``platform`` has."""
    with closing(Lake.open(platform)) as lake:
        s3 = client_of(platform)
        yield SimpleNamespace(
            platform=platform,
            lake=lake,
            s3=s3,
            kafka=KafkaAdmin(platform.kafka),
            # It has no files, and is asked for none.
            source=SimpleNamespace(within=lambda *_: Bucket(s3, "source")),
            batch_log=lambda table: BatchLog.open(s3, lake.table(table)),
        )
