"""`[lake.catalog]`: what each kind of client is given, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy.engine import make_url

from sluice.config.platform_sections import catalog
from sluice.config.platform_sections import lake as lake_section
from sluice.config.platform_sections.catalog import ADDRESS, CHECK_NAMESPACE, Catalog
from sluice.config.platform_sections.lake import BUCKET_LISTS, DOCUMENTS, MAINTENANCE, Lake
from sluice.config.platform_sections.s3 import S3, of_properties
from sluice.config.reading.toml import ConfigError
from tests.support.raising import raising

S3_KEYS = S3("key", "hidden", "http://minio:9000")
REST = {"type": "rest", "uri": "https://catalog.test/iceberg"}


def maintained(maintenance: str, documents: str = "", *, bucket_lists: bool = True) -> Lake:
    managed = Catalog(REST["type"], REST["uri"])
    made = Lake("s3://w/lake", "s3://w/ledger", managed, maintenance, documents, bucket_lists)
    lake_section.check(made, "[lake]")
    return made


def lake(**declared: Any) -> Lake:
    made = Catalog(**declared)
    catalog.check(made, "[lake.catalog]")
    return Lake("s3://w/lake", "s3://w/ledger", made)


def test_a_rest_catalog_is_told_the_same_by_both_clients() -> None:
    made = lake(
        **REST, warehouse="prod", credential="id:secret", scope="a b", oauth2_server_uri="https://idp.test/t"
    )
    expected = {
        "type": "rest",
        "uri": "https://catalog.test/iceberg",
        "warehouse": "prod",
        "credential": "id:secret",
        "oauth2-server-uri": "https://idp.test/t",
        "scope": "a b",
        CHECK_NAMESPACE: "sluice_check",
        ADDRESS: "https://catalog.test/iceberg",
        "token-exchange-enabled": "false",
        "rest.client.connection-timeout-ms": "5000",
        "rest.client.socket-timeout-ms": "60000",
    }
    assert made.spark() == expected
    assert expected.items() <= made.pyiceberg(S3_KEYS).items()
    assert made.catalog.address == "https://catalog.test/iceberg"
    assert "secret" not in repr(made)
    assert lake(**REST, token="t").spark()["token-refresh-enabled"] == "false"
    # Not the address in the bucket: a server would look for a warehouse of this name.
    assert "warehouse" not in lake(**REST).spark()


def test_a_database_has_a_port_of_its_own_or_the_usual_one() -> None:
    made = lake(type="sql", uri="postgresql://localhost/lake", username="u", password="p")
    assert made.spark()["uri"] == "jdbc:postgresql://localhost:5432/lake"
    assert made.catalog.libpq()["port"] == 5432


@pytest.mark.parametrize(
    ("declared", "python", "java"),
    [
        ({"sslmode": "disable"}, {"ssl_disabled": "true"}, {"sslMode": "disable"}),
        ({"sslmode": "require"}, {"ssl_check_hostname": "false"}, {"sslMode": "trust"}),
        (
            {"sslmode": "verify-ca", "sslrootcert": "/c a.pem"},
            {"ssl_ca": "/c a.pem", "ssl_check_hostname": "false"},
            {"sslMode": "verify-ca", "serverSslCert": "/c a.pem"},
        ),
        (
            {"sslrootcert": "/c a.pem"},
            {"ssl_ca": "/c a.pem", "ssl_check_hostname": "true"},
            {"sslMode": "verify-full", "serverSslCert": "/c a.pem"},
        ),
    ],
)
def test_mysql_is_verified_as_it_is_declared_by_both_clients_with_deadlines(
    declared: dict[str, str], python: dict[str, str], java: dict[str, str]
) -> None:
    made = lake(type="sql", uri="mysql://db.test/lake", username="u", password="p@ss/w", **declared)
    url = make_url(made.pyiceberg(S3_KEYS)["uri"])
    assert (url.drivername, url.host, url.port, url.password) == ("mysql+pymysql", "db.test", 3306, "p@ss/w")
    assert {key: value for key, value in url.query.items() if key.startswith("ssl")} == python
    assert url.query["read_timeout"] == "60"
    jdbc = {key.removeprefix("jdbc."): value for key, value in made.spark().items()}
    assert jdbc["uri"] == "jdbc:mariadb://db.test:3306/lake"
    assert {key: value for key, value in jdbc.items() if "ssl" in key.lower()} == java
    assert ("allowPublicKeyRetrieval" in jdbc) is (python == {"ssl_disabled": "true"})
    # In milliseconds.
    assert (jdbc["connectTimeout"], jdbc["socketTimeout"]) == ("5000", "60000")
    for first in (url.query["init_command"], jdbc["initSql"]):
        assert "STRICT_ALL_TABLES" in first
        assert "innodb_lock_wait_timeout = 45" in first
    assert made.catalog.address == "mysql://db.test:3306/lake"


def test_mysql_on_another_machine_needs_a_ca_or_a_declaration() -> None:
    mysql = {**SQL, "uri": "mysql://db.test/lake"}
    with raising(ConfigError, "sslrootcert is missing, and sslmode is 'verify-full'"):
        lake(**mysql)
    with raising(ConfigError, "sslmode is 'prefer': it may fall back to plain text"):
        lake(**mysql, sslmode="prefer")


def test_keys_of_the_catalog_are_asked_for_by_both_clients_which_have_no_others() -> None:
    made = lake(**REST, access_delegation="vended-credentials")
    assert made.vends
    assert made.spark()["header.X-Iceberg-Access-Delegation"] == "vended-credentials"
    properties = made.pyiceberg(S3_KEYS)
    assert properties["header.X-Iceberg-Access-Delegation"] == "vended-credentials"
    assert "hidden" not in str(properties)
    assert "s3.access-key-id" not in properties
    assert properties["s3.anonymous"] == "true"
    usual = lake(**REST)
    assert not usual.vends
    assert of_properties(usual.pyiceberg(S3_KEYS)) == S3_KEYS


SQL = {"type": "sql", "uri": "postgresql://localhost/lake", "username": "u", "password": "p"}


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (
            REST | {"access_delegation": "remote-signing"},
            "access_delegation is 'remote-signing'. Fix: write 'vended-credentials'",
        ),
        (
            {**SQL, "access_delegation": "vended-credentials"},
            "access_delegation has no meaning for type 'sql'",
        ),
        ({"type": "hive", "uri": "h"}, "type is 'hive'. Fix: use one of sql, rest, glue"),
        ({**SQL, "token": "t"}, "token has no meaning for type 'sql'. Fix: remove it"),
        ({**REST, "sslmode": "disable"}, "sslmode has no meaning for type 'rest'"),
        *(
            ({**SQL, "uri": uri}, "no address of a database. Fix: write postgresql://host:port/database")
            for uri in (
                "oracle://h/d",
                "mysql:///d",
                "postgresql:///d",
                "postgresql://h",
                "postgresql://h/",
                "postgresql://h/a/b",
            )
        ),
        ({**SQL, "uri": "postgresql://h:99999/d"}, "no address of a database"),
        ({**SQL, "uri": "postgresql://h/d?sslmode=prefer"}, "no address of a database"),
        ({**SQL, "uri": "postgresql://u:hidden@h/d"}, "uri has a login in it"),
        ({**SQL, "username": ""}, "username is missing"),
        ({**REST, "check_namespace": "a.b"}, "check_namespace is 'a.b', no name of a namespace"),
        ({**REST, "uri": "catalog.test"}, "Fix: write it with http:// or https://"),
        ({**REST, "uri": "https://u:hidden@h/d"}, "uri has a login in it"),
        (
            {**REST, "credential": "a:b", "oauth2_server_uri": "ftp://u:hidden@h/t"},
            "oauth2_server_uri has a login in it",
        ),
        ({**REST, "uri": "https://h/d?a=hidden"}, "has a query or a fragment"),
        ({**REST, "token": "t", "credential": "a:b"}, "there are two logins"),
        ({**REST, "scope": "all"}, "scope is there, and credential is missing"),
        ({**REST, "token": "a\nb"}, "token has a character that no header can have"),
        ({**REST, "uri": "http://h:1", "token": "hidden"}, "uri is of another machine"),
        (
            {**REST, "credential": "a:hidden", "oauth2_server_uri": "http://h/t"},
            "oauth2_server_uri is of another machine",
        ),
    ],
)
def test_a_catalog_that_is_declared_wrongly_is_refused(declared: dict[str, Any], message: str) -> None:
    with raising(ConfigError, "[lake.catalog]", message) as refused:
        lake(**declared)
    assert "hidden" not in str(refused.value)


def test_a_login_may_be_sent_in_plain_text_to_this_machine_or_where_it_is_declared() -> None:
    lake(**REST | {"uri": "http://127.0.0.1:1"}, token="t")
    lake(**REST | {"uri": "http://h:1"}, token="t", plain_text=True)


def test_who_maintains_the_tables_is_told_to_the_client_that_would() -> None:
    managed = maintained("catalog", "s3://other/docs/", bucket_lists=False)
    said = {MAINTENANCE: "catalog", DOCUMENTS: "s3://other/docs", BUCKET_LISTS: "false"}
    assert said.items() <= managed.spark().items()
    assert said.items() <= managed.pyiceberg(S3_KEYS).items()
    assert managed.is_maintained_by_catalog
    assert MAINTENANCE not in lake(**REST).spark()
    assert not lake(**REST).is_maintained_by_catalog


def test_an_unknown_maintenance_is_refused_and_one_that_needs_lists_without_them() -> None:
    with raising(ConfigError, "[lake]", "maintenance is 'glue'. Fix: use one of sluice, catalog"):
        maintained("glue")
    with raising(ConfigError, "bucket_lists is false and maintenance is 'sluice'", "Fix: "):
        maintained("sluice", bucket_lists=False)
    with raising(ConfigError, "bucket_lists is false and documents is missing", "Fix: "):
        maintained("catalog", bucket_lists=False)
    with raising(ConfigError, "documents is 'other/docs', no address of a bucket's folder", "Fix: "):
        maintained("catalog", "other/docs")


CERTIFIED = {"sslcert": "/t.crt", "sslkey": "/t.key", "sslpassword": "ph rase"}


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_a_certificate_is_in_the_address_of_python_s_client_and_not_among_java_s_properties(
    scheme: str,
) -> None:
    made = lake(type="sql", uri=f"{scheme}://db.test/lake", username="u", sslrootcert="/c", **CERTIFIED)
    url = make_url(made.pyiceberg(S3_KEYS)["uri"])
    assert {key: url.query[key] for key in CERTIFIED} == CERTIFIED
    assert "sluice_certificate" in url.query["plugin"]
    assert not {"/t.crt", "/t.key", "ph rase"} & set(made.spark().values())
    assert "ph rase" not in repr(made)
    assert url.password in (None, "")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"sslcert": ""}, "sslkey is there, and sslcert is missing. Fix: add the certificate"),
        ({"sslcert": "", "sslkey": ""}, "sslpassword is there, and sslcert is missing"),
        ({"sslmode": "disable"}, "sslcert is there, and the connection is not encrypted"),
        ({"username": ""}, "username is missing"),
    ],
)
def test_a_certificate_that_would_not_be_sent_is_refused(changed: dict[str, str], said: str) -> None:
    given = {"uri": "postgresql://db.test/lake", "username": "u", "password": "p", "sslrootcert": "/c"}
    with raising(ConfigError, said):
        lake(type="sql", **given | CERTIFIED | changed)


def test_files_of_a_rest_catalog_are_pyicebergs_and_none_of_javas_properties() -> None:
    made = lake(type="rest", uri="https://catalog.test", token="t", sslrootcert="/c", **CERTIFIED)
    found = {key: text for key, text in made.pyiceberg(S3_KEYS).items() if key.startswith("sluice.tls.")}
    assert found == {f"sluice.tls.{key}": text for key, text in {"sslrootcert": "/c", **CERTIFIED}.items()}
    assert not {"/c", *CERTIFIED.values()} & set(made.spark().values())


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"uri": "http://127.0.0.1:1"}, "sslcert is there, and the connection is not encrypted"),
        ({"uri": "http://127.0.0.1:1", "sslcert": "", "sslkey": "", "sslpassword": ""}, "is not encrypted"),
        ({"sslcert": ""}, "sslkey is there, and sslcert is missing"),
        ({"sslmode": "require"}, "sslmode has no meaning for type 'rest'"),
    ],
)
def test_files_of_a_rest_catalog_that_would_not_be_used_are_refused(
    changed: dict[str, str], said: str
) -> None:
    given = {"uri": "https://catalog.test", "sslrootcert": "/c", **CERTIFIED}
    with raising(ConfigError, said):
        lake(type="rest", **given | changed)
