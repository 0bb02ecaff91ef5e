"""`[lake.catalog]` of type `glue`: what each kind of client is given, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sluice.config import platform
from sluice.config.platform import Platform
from sluice.config.platform_sections import glue
from sluice.config.platform_sections.catalog import ADDRESS, CHECK_NAMESPACE
from sluice.config.platform_sections.s3 import of_properties
from sluice.config.reading.toml import ConfigError, dump
from spark_jobs.common.spark.session import catalog_options
from tests.support.raising import raising

KEYS: dict[str, Any] = {"access_key": "glue-key", "secret_key": "glue-hidden"}


def declared(s3: dict[str, Any] | None = None, **keys: Any) -> Platform:
    """A platform file with this catalog, and an S3 of AWS in another region by default."""
    made = {
        "role": "consumer",
        "kafka": {"bootstrap_servers": "127.0.0.1:9092"},
        "s3": {"access_key": "s3-key", "secret_key": "s3-hidden", "region": "eu-west-1", **(s3 or {})},
        "lake": {"warehouse": "s3://w/lake", "ledger": "s3://w/ledger", "catalog": {"type": "glue", **keys}},
        "source": {"bucket": "s"},
        "checkpoints": {"root": "/c"},
    }
    return platform.parse(dump(made), "consumer.toml")


def test_both_clients_are_told_the_same_each_by_its_names() -> None:
    made = declared(
        region="us-east-2",
        catalog_id="123456789012",
        endpoint="https://glue.test",
        session_token="ending",
        **KEYS,
    )
    told = made.lake.pyiceberg(made.s3)
    assert told == made.lake.spark() | {
        "s3.region": "eu-west-1",
        **made.s3.properties(),
    }
    assert made.lake.spark() == {
        "type": "glue",
        "warehouse": "s3://w/lake",
        "glue.id": "123456789012",
        "glue.endpoint": "https://glue.test",
        "client.region": "us-east-2",
        "glue.region": "us-east-2",
        "glue.access-key-id": "glue-key",
        "glue.secret-access-key": "glue-hidden",
        "glue.session-token": "ending",
        CHECK_NAMESPACE: "sluice_check",
        ADDRESS: "https://glue.test/123456789012",
    }
    assert glue.jvm_login(made.lake.spark()) == {
        "aws.accessKeyId": "glue-key",
        "aws.secretAccessKey": "glue-hidden",
        "aws.sessionToken": "ending",
    }
    assert not any(secret in repr(made) for secret in ("hidden", "ending"))


def test_region_and_login_are_those_of_s3_unless_they_are_declared() -> None:
    told = declared().lake.spark()
    assert (told["client.region"], told["glue.region"]) == ("eu-west-1", "eu-west-1")
    assert (told["glue.access-key-id"], told["glue.secret-access-key"]) == ("s3-key", "s3-hidden")
    assert declared(s3={"session_token": "of-s3"}).lake.spark()["glue.session-token"] == "of-s3"
    # Not the token of another login, from an earlier session of the JVM.
    assert glue.jvm_login(told)["aws.sessionToken"] == ""
    assert told[ADDRESS] == "https://glue.eu-west-1.amazonaws.com"


ROLE = {"role_arn": "arn:aws:iam::123456789012:role/lake"}


@pytest.mark.parametrize("s3", [ROLE, {"access_key": "", "secret_key": ""}])
def test_a_login_of_s3_that_is_renewed_is_the_catalogs_too(s3: dict[str, str]) -> None:
    made = declared(s3=s3)
    assert set(glue.jvm_login(made.lake.spark()).values()) == {""}
    assert of_properties(made.lake.pyiceberg(made.s3)) == made.s3
    with raising(ConfigError, "[lake.catalog]: access_key is there", "without fixed keys", "Fix: remove"):
        declared(s3=s3, **KEYS)
    assert declared(**KEYS).lake.spark()["glue.access-key-id"] == "glue-key"
    assert declared(**KEYS).lake.catalog.address == "https://glue.eu-west-1.amazonaws.com"


def test_a_bucket_in_another_region_than_the_catalog_is_found_by_both_clients() -> None:
    """Java has one region for all that it asks, so AWS's S3 tells where a bucket is."""
    prefix = "spark.sql.catalog.lake."

    def told(made: Platform) -> dict[str, str]:
        found = catalog_options(made)
        names = ("client.region", "glue.region", "s3.region", "s3.cross-region-access-enabled")
        return {name: found[prefix + name] for name in names if prefix + name in found}

    same = {"client.region": "eu-west-1", "glue.region": "eu-west-1", "s3.region": "eu-west-1"}
    other = {"client.region": "us-east-2", "glue.region": "us-east-2", "s3.region": "eu-west-1"}
    assert told(declared()) == same
    assert told(declared(region="us-east-2")) == {**other, "s3.cross-region-access-enabled": "true"}
    # Another store than AWS's would not know of it.
    assert told(declared({"endpoint": "https://minio.test"}, region="us-east-2")) == other


def test_no_other_catalog_takes_the_login_of_s3() -> None:
    made = declared()
    sql = replace(made.lake.catalog, type="sql", region="", access_key="", secret_key="")
    assert glue.with_defaults(sql, made.s3) is sql


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"uri": "https://glue.test"}, "uri has no meaning for type 'glue'. Fix: remove it"),
        ({"warehouse": "w"}, "warehouse has no meaning for type 'glue'"),
        ({"access_key": "glue-key"}, "access_key is there, and secret_key is missing. Fix: add it"),
        ({"secret_key": "glue-hidden"}, "secret_key is there, and access_key is missing. Fix: add it"),
        ({"session_token": "hidden"}, "session_token is there, and access_key is missing. Fix: add"),
        ({**KEYS, "secret_key": "a\nhidden"}, "secret_key has a character that no login of AWS has"),
        ({"region": "us east"}, "region is 'us east'. Fix: write it as AWS shows it"),
        ({"catalog_id": "a b"}, "catalog_id is 'a b'. Fix: write it as AWS shows it"),
        ({"endpoint": "glue.test"}, "Fix: write it with http:// or https://"),
        ({"endpoint": "https://u:hidden@glue.test"}, "endpoint has a login in it"),
        ({"endpoint": "https://glue.test/a"}, "endpoint has more than a host and a port"),
        ({"endpoint": "http://glue.test"}, "endpoint is of another machine, without encryption"),
        ({"check_namespace": "A"}, "check_namespace is 'A', no name of a namespace"),
    ],
)
def test_what_is_declared_wrongly_is_refused(keys: dict[str, Any], message: str) -> None:
    with raising(ConfigError, "[lake.catalog]", message) as refused:
        declared(**keys)
    assert "hidden" not in str(refused.value)


def test_plain_text_is_for_this_machine_or_declared() -> None:
    declared(endpoint="http://127.0.0.1:4566")
    declared(endpoint="http://glue.test", plain_text=True)
