"""Logins of S3 under Spark, over TLS: Iceberg's files, s3a's and those of Python's workers; what ends is
renewed, nothing is lost or doubled, and no query is started again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from local.runtime.roles import WAREHOUSE
from sluice.clients.s3.errors import S3LoginRefused
from sluice.clients.s3.login.credentials import login
from sluice.config.platform import Platform
from sluice.config.platform_sections.catalog import GLUE
from sluice.config.platform_sections.lake import CATALOG
from sluice.config.platform_sections.s3 import S3
from spark_jobs.common.spark.login import s3 as s3_login
from spark_jobs.common.spark.session import checkpoint_options
from tests.support.catalog_proxy import Answer, Ask, Asked, passed_on
from tests.support.lakehouse import Stream, activate
from tests.support.raising import raising
from tests.support.s3_logins import KEY, USER, USER_SECRET, LoginMinio
from tests.support.services import Services

Follow = Callable[[str, S3], Stream]
LIFETIME = 12.0


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginMinio]:
    made = LoginMinio(tmp_path_factory.mktemp("logins"))
    yield made
    made.stop()


@pytest.fixture
def follow(spark: SparkSession, services: Services, store: LoginMinio) -> Iterator[Follow]:
    """A stream whose files, and whose checkpoint, are in that store."""
    made: list[Stream] = []
    services.kafka, services.postgres  # noqa: B018

    def start(name: str, s3: S3) -> Stream:
        root = f"s3a://{WAREHOUSE}/checkpoints/{name}"
        session = spark.newSession()
        # Iceberg keeps clients of the same properties, of the JVM's earlier tests too: with the CAs of then.
        session.conf.set(f"spark.sql.catalog.{CATALOG}.http-client.apache.max-connections", "49")
        made.append(Stream(session, services, name, root, changed=lambda platform: replace(platform, s3=s3)))
        for key, value in checkpoint_options(made[-1].platform).items():
            session.conf.set(key, value)
        return made[-1]

    yield start
    for one in made:
        one.stop()
    activate(spark)


def written(store: LoginMinio, name: str) -> dict[str, Any]:
    """Key -> what HEAD says, of a stream's objects."""
    listed = store.root.get_paginator("list_objects_v2").paginate(Bucket=WAREHOUSE)
    keys = [entry["Key"] for page in listed for entry in page.get("Contents", [])]
    return {key: store.root.head_object(Bucket=WAREHOUSE, Key=key) for key in keys if f"/{name}/" in key}


ENCRYPTED = {"AES256": ("AES256", None), "aws:kms": ("aws:kms", f"arn:aws:kms:{KEY}")}


@pytest.mark.parametrize("sse", ["aws:kms", pytest.param("AES256", marks=pytest.mark.exhaustive)])
def test_a_role_writes_every_object_encrypted(follow: Follow, store: LoginMinio, sse: str) -> None:
    name = f"encrypted_{sse[:3].lower()}"
    role = store.of_role(sse=sse, sse_kms_key_id=KEY if sse == "aws:kms" else "")
    stream = follow(name, role)
    stream.send(5)
    stream.run(stream.writer())
    stream.assert_exact(5)
    found = written(store, name)
    for part in ("/data/", ".metadata.json", "-m0.avro", "/snap-", "/offsets/0", "/commits/0"):
        assert any(part in key for key in found), part
    said = {(head.get("ServerSideEncryption"), head.get("SSEKMSKeyId")) for head in found.values()}
    assert said == {ENCRYPTED[sse]}


@pytest.mark.exhaustive
def test_credentials_of_seconds(follow: Follow, store: LoginMinio, tmp_path: Path) -> None:
    token, is_over = tmp_path / "token", threading.Event()

    def keep() -> None:
        while not is_over.wait(LIFETIME / 4):
            store.renew(token, LIFETIME)

    store.renew(token, LIFETIME)
    threading.Thread(target=keep, daemon=True).start()
    s3 = store.of_token(token)
    try:
        stream = follow("ending", s3)
        stream.send(3)
        run, sent = stream.run(stream.writer()), 3
        first, began = login(s3).ends, time.monotonic()
        while time.monotonic() - began < 2.5 * LIFETIME:
            stream.send(1)
            sent += 1
            run.query.processAllAvailable()
            assert run.is_active
            time.sleep(0.2)
        stream.assert_exact(sent)
    finally:
        is_over.set()
    last = login(s3).ends
    assert first is not None
    assert last is not None
    assert last > first
    assert len(stream.started) == 1
    epochs = {summary["epoch"] for summary in stream.summaries() if "epoch" in summary}
    assert epochs == {"1"}


@pytest.mark.exhaustive
def test_a_token_that_is_not_renewed_is_a_refused_login_and_goes_on_when_it_is(
    follow: Follow, store: LoginMinio, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    store.renew(token, LIFETIME)
    stream = follow("refused", store.of_token(token))
    stream.send(3)
    run = stream.run(stream.writer())
    time.sleep(LIFETIME + 1)
    stream.send(2)
    with (
        raising(S3LoginRefused, "STS answered", "Token is expired", "Fix: let what writes the token's file"),
        s3_login.explained(stream.platform),
    ):
        stream.await_end(run)
    store.renew(token, 300)
    stream.run(stream.writer())
    stream.assert_exact(5)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"secret_key": "wrong"}, "S3 refuses the login (SignatureDoesNotMatch: "),
        ({"access_key": "unknown"}, "S3 refuses the login (InvalidAccessKeyId: "),
    ],
)
def test_what_java_is_refused_is_said_in_the_servers_words(
    follow: Follow, services: Services, store: LoginMinio, changed: dict[str, Any], message: str
) -> None:
    s3 = replace(store.s3(USER, USER_SECRET), **changed)
    platform = replace(services.stack.platform("consumer"), s3=s3)
    with raising(S3LoginRefused, message, "Fix: "), s3_login.explained(platform):
        follow("wrong_keys", s3)


@pytest.mark.exhaustive
def test_a_role_is_javas_login_to_glue_too(spark: SparkSession, services: Services, tmp_path: Path) -> None:
    services.minio, services.kafka, services.postgres  # noqa: B018
    arn = "arn:aws:iam::123456789012:role/lake"

    def by_role(platform: Platform) -> Platform:
        keyless = replace(platform.lake.catalog, access_key="", secret_key="")
        s3 = replace(platform.s3, role_arn=arn, sts_endpoint=services.minio_url)
        return replace(platform, s3=s3, lake=replace(platform.lake, catalog=keyless))

    stream = Stream(spark, services, "glue_by_role", str(tmp_path), catalog=GLUE, changed=by_role)
    tokens: set[str] = set()

    def noted(asked: Asked, ask: Ask) -> Answer | None:
        tokens.add(asked.headers.get("x-amz-security-token", ""))
        return ask(asked)

    services.glue_proxy.rule = noted
    try:
        stream.send(5)
        stream.run(stream.writer())
        stream.assert_exact(5)
    finally:
        services.glue_proxy.rule = passed_on
        stream.stop()
    assert tokens == {login(stream.platform.s3).get_frozen_credentials().token}
