"""What tasks share of a platform."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from sluice.airflow.hook import PlatformHook
from sluice.clients.s3.requests import S3_REQUESTS
from sluice.config.platform_sections.s3 import S3


def test_a_task_makes_one_s3_client_with_a_connection_for_each_of_its_threads() -> None:
    hook = PlatformHook()
    s3, lake = (
        S3("user", "secret", endpoint="http://127.0.0.1:9"),
        SimpleNamespace(ledger="s3://w/ledger", vends=False),
    )
    vars(hook)["platform"] = SimpleNamespace(s3=s3, lake=lake, source=SimpleNamespace(bucket="source"))
    clients = [hook.source.client, hook.bucket("a").client, hook.ledger("s").client, hook.history("s").client]
    assert all(client is clients[0] for client in clients)
    config: Any = clients[0].meta.config
    assert config.max_pool_connections == S3_REQUESTS
