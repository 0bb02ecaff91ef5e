"""Which logins of S3 a job's JVMs can have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from sluice.clients.s3.errors import S3LoginRefused
from sluice.config.platform import Platform, parse
from sluice.config.platform_sections.s3 import S3
from sluice.config.reading.toml import ConfigError, dump
from spark_jobs.common.spark.login.s3 import log_in
from spark_jobs.common.spark.session import catalog_options
from tests.support.raising import raising

ROLE = "arn:aws:iam::123456789012:role/lake"
FIXED = S3("key", "hidden")


def on(s3: S3) -> Platform:
    catalog = {"type": "sql", "uri": "postgresql://localhost/lake", "username": "u", "password": "p"}
    made: dict[str, Any] = {
        "role": "consumer",
        "kafka": {"bootstrap_servers": "127.0.0.1:9092"},
        "s3": {"access_key": "key", "secret_key": "hidden"},
        "lake": {"warehouse": "s3://w/lake", "ledger": "s3://w/ledger", "catalog": catalog},
        "source": {"bucket": "s"},
        "checkpoints": {"root": "/c"},
    }
    return replace(parse(dump(made), "consumer.toml"), s3=s3)


def session(master: str) -> Any:
    """A session of which nothing else is asked."""
    found = MagicMock()
    found.sparkContext.master = master
    return found


@pytest.mark.parametrize("s3", [FIXED, replace(FIXED, session_token="ending")])
def test_fixed_keys_are_told_to_executors_and_leave_the_jvms_own_settings(s3: S3) -> None:
    spark = session("k8s://https://kubernetes")
    log_in(spark, on(s3))
    spark._jvm.java.lang.System.setProperty.assert_not_called()
    assert catalog_options(on(s3), has_executors=True) == catalog_options(on(s3))


@pytest.mark.parametrize(
    "s3",
    [
        replace(FIXED, role_arn=ROLE),
        S3(profile="lake"),
        S3(role_arn=ROLE, web_identity_token_file="/token"),
    ],
)
def test_executors_on_other_machines_cannot_have_what_only_the_driver_has(s3: S3) -> None:
    with raising(ConfigError, "consumer.toml: s3 has a role, a profile or", "Fix: give the executors'"):
        log_in(session("k8s://https://kubernetes"), on(s3))


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "No such file or directory"), ("no certificate", "no certificate or crl found")],
)
def test_a_ca_that_cannot_be_used_is_named(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    with raising(S3LoginRefused, f"[s3] ca_location: CA {path} cannot be used (", message, "Fix: put"):
        log_in(session("local[2]"), on(replace(FIXED, ca_location=str(path))))
