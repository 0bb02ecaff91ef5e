"""An object of a real server whose connections are cut while its producer, or validation, reads it."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from sluice.clients.s3.objects import Bucket
from sluice.clients.s3.requests import connect
from sluice.core.errors import Unreachable
from spark_jobs.common.producer.source_object import SourceObject
from tests.support.fault_proxy import Fault, FaultProxy
from tests.support.raising import raising
from tests.support.services import Services

ROWS = b"".join(b"%d,%d\n" % (row, row * row) for row in range(60_000))
CSV = b"number,square\n" + ROWS


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, FaultProxy]]:
    """Role producer's client, by a proxy, and the objects."""
    services = Services(tmp_path_factory.mktemp("s3"))
    for name, body in (("plain.csv", CSV), ("packed.csv.gz", gzip.compress(CSV, 1))):
        services.minio.put_object(Bucket="source", Key=name, Body=body)
    with FaultProxy(services.minio_url) as proxy:
        yield connect(replace(services.stack.platform("producer").s3, endpoint=proxy.url)), proxy
    services.stop()


@pytest.mark.parametrize("key", ["plain.csv", "packed.csv.gz"])
@pytest.mark.parametrize("version", ["its newest", None])
def test_it_is_read_whole_and_each_byte_is_asked_for_once(
    proxied: tuple[Any, FaultProxy], key: str, version: str | None
) -> None:
    client, proxy = proxied
    (found,) = Bucket(client, "source").resolve("", [key])
    before = len(proxy.requests)
    source = SourceObject("s", "source", key, version and found.version_id, 1, found.size)
    proxy.add(Fault(method="GET", pattern=f"/{key}", cut="body", body_bytes=50_000, times=3))
    assert b"".join(source.chunks(client, "utf-8")) == CSV
    proxy.add(Fault(method="GET", pattern=f"/{key}", cut="body", body_bytes=50_000, times=3))
    assert Bucket(client, "source").data_rows(found) == 60_000
    assert [one.status for one in proxy.requests[before:] if one.fault] == [200, 206, 206] * 2
    proxy.clear()


def test_a_server_that_gives_no_byte_is_named(proxied: tuple[Any, FaultProxy]) -> None:
    client, proxy = proxied
    source = SourceObject("s", "source", "plain.csv", None, 1, len(CSV))
    chunks = source.chunks(client, "utf-8")
    proxy.add(Fault(method="GET", cut="body", body_bytes=50_000, times=1))
    next(chunks)
    proxy.add(Fault(method="GET", cut="answer"))
    with raising(Unreachable, "source object s3://source/plain.csv"):
        list(chunks)
    proxy.clear()
