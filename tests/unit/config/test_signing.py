"""`[lake.catalog]` of a REST catalog whose requests are signed: what each client is given, and what is
refused."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.config.platform_sections import glue
from sluice.config.platform_sections.catalog import ADDRESS, CHECK_NAMESPACE
from sluice.config.reading.toml import ConfigError
from spark_jobs.common.spark.session import catalog_options
from tests.support.raising import raising
from tests.unit.config.test_glue import declared

TABLES = "https://s3tables.us-east-2.amazonaws.com/iceberg"
BUCKET = "arn:aws:s3tables:us-east-2:123456789012:bucket/lake"
OWN = {"access_key": "own-key", "secret_key": "own-hidden"}


def rest(uri: str = TABLES, **keys: Any) -> Any:
    return declared(**{"type": "rest", "uri": uri, **keys})


def test_service_and_region_are_those_of_aws_s_host_and_keys_those_of_s3() -> None:
    made = rest(warehouse=BUCKET)
    told = made.lake.spark()
    assert told == {
        "type": "rest",
        "uri": TABLES,
        "warehouse": BUCKET,
        "rest.auth.type": "sigv4",
        "rest.auth.sigv4.delegate-auth-type": "none",
        "rest.signing-name": "s3tables",
        "rest.signing-region": "us-east-2",
        "rest.access-key-id": "s3-key",
        "rest.secret-access-key": "s3-hidden",
        "rest.client.connection-timeout-ms": "5000",
        "rest.client.socket-timeout-ms": "60000",
        CHECK_NAMESPACE: "sluice_check",
        ADDRESS: TABLES,
    }
    assert told.items() <= made.lake.pyiceberg(made.s3).items()
    # Buckets have a region of their own, and no key of the catalog.
    options = catalog_options(made)
    assert options["spark.sql.catalog.lake.client.region"] == "eu-west-1"
    assert options["spark.sql.catalog.lake.s3.access-key-id"] == "s3-key"
    assert not any(glue.jvm_login(told).values())


def test_a_login_of_its_own_is_taken_in_place_of_that_of_s3() -> None:
    made = rest("https://glue.eu-west-3.amazonaws.com/iceberg", session_token="ending", **OWN)
    told = made.lake.spark()
    assert (told["rest.signing-name"], told["rest.signing-region"]) == ("glue", "eu-west-3")
    names = ("access-key-id", "secret-access-key", "session-token")
    assert [told[f"rest.{name}"] for name in names] == ["own-key", "own-hidden", "ending"]
    assert catalog_options(made)["spark.sql.catalog.lake.s3.access-key-id"] == "s3-key"
    assert not any(secret in repr(made) for secret in ("hidden", "ending"))


@pytest.mark.parametrize(
    ("uri", "service", "region"),
    [
        ("https://glue.us-east-1.api.aws/iceberg", "glue", "us-east-1"),
        ("https://glue-fips.us-gov-west-1.amazonaws.com/iceberg", "glue", "us-gov-west-1"),
        ("https://vpce-1-a.s3tables.eu-west-2.vpce.amazonaws.com/iceberg", "s3tables", "eu-west-2"),
        ("https://s3tables.cn-north-1.amazonaws.com.cn/iceberg", "s3tables", "cn-north-1"),
    ],
)
def test_aws_s_own_hosts_are_known(uri: str, service: str, region: str) -> None:
    told = rest(uri).lake.spark()
    assert (told["rest.signing-name"], told["rest.signing-region"]) == (service, region)


def test_another_host_signs_if_it_is_declared_in_the_region_of_s3() -> None:
    gateway = "https://abc.execute-api.eu-west-1.amazonaws.com/prod"
    told = rest(gateway, signing_name="execute-api").lake.spark()
    assert (told["rest.signing-name"], told["rest.signing-region"]) == ("execute-api", "eu-west-1")
    plain = rest("https://catalog.test").lake.spark()
    assert not [key for key in plain if "sign" in key or "auth" in key or "key" in key]
    # AWS Sign-In gives tokens for Glue.
    with_token = rest("https://glue.eu-west-3.amazonaws.com/iceberg", token="t").lake.spark()
    assert "rest.auth.type" not in with_token


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"signing_name": "s3tables", "token": "hidden"}, "signing_name and token: there are two logins"),
        ({"signing_name": "s3tables", "credential": "a:hidden"}, "signing_name and credential"),
        ({"signing_name": "glue"}, "signing_name is 'glue', and the host of uri is of s3tables. Fix: leave"),
        ({"region": "eu-west-1"}, "region is 'eu-west-1', and the host of uri is of us-east-2. Fix: leave"),
        ({"uri": "https://h", "signing_name": "S3 Tables"}, "signing_name is 'S3 Tables'. Fix: write"),
        ({"uri": "https://h", "region": "eu-west-1"}, "region is there, and signing_name is missing"),
        ({"uri": "https://h", "token": "hidden", **OWN}, "access_key is there, and signing_name is missing"),
        ({"uri": "https://h", "signing_name": "glue", "region": "a b"}, "region is 'a b'. Fix: write it as"),
        ({"access_key": "hidden"}, "access_key is there, and secret_key is missing"),
        ({"session_token": "hidden"}, "session_token is there, and access_key is missing"),
        ({"uri": "http://h", "signing_name": "glue"}, "uri is of another machine, without encryption"),
        ({"type": "glue", "uri": "", "signing_name": "glue"}, "signing_name has no meaning for type 'glue'"),
    ],
)
def test_what_cannot_be_signed_is_refused(keys: dict[str, str], message: str) -> None:
    with raising(ConfigError, "[lake.catalog]", message) as refused:
        rest(**keys)
    assert "hidden" not in str(refused.value)


def test_keys_that_the_catalog_gives_for_files_sign_nothing() -> None:
    without, delegated = {"access_key": "", "secret_key": ""}, {"access_delegation": "vended-credentials"}
    made = declared(without, type="rest", uri=TABLES, **delegated, **OWN)
    assert made.lake.spark()["rest.access-key-id"] == "own-key"
    with raising(ConfigError, "[lake.catalog]: access_delegation is there, and no login"):
        declared(without, type="rest", uri=TABLES, **delegated)
    assert "rest.access-key-id" not in declared(without, type="rest", uri=TABLES).lake.spark()
