"""What a job's JVM is told of the environment's proxies, as Python's clients go by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from sluice.clients.jvm_proxies import JvmProxies, jvm_proxies
from sluice.clients.proxies import ProxyUnusable
from sluice.config import platform as platforms
from sluice.config.platform import Platform
from sluice.config.platform_sections.catalog import REST, Catalog
from sluice.config.platform_sections.glue import GLUE
from sluice.config.platform_sections.kafka import AWS_MSK_IAM, OAUTHBEARER, Kafka
from sluice.config.platform_sections.s3 import S3
from tests.support.raising import raising
from tests.unit.config.test_platform import PLATFORM

PROXY = "http://proxy.test:3128"
TOKENS = "https://idp.test/token"
LOGIN = Kafka(
    "kafka:9093",
    "SASL_SSL",
    OAUTHBEARER,
    sasl_oauthbearer_token_endpoint_url=TOKENS,
    sasl_oauthbearer_client_id="me",
    sasl_oauthbearer_client_secret="secret",
)
CATALOG = Catalog(REST, "https://catalog.test/api", credential="me:secret", oauth2_server_uri=TOKENS)
AWS = S3(region="eu-central-1")
LOOPBACK = "localhost|127.*|[::1]"


@pytest.fixture(autouse=True)
def _without_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def platform(kafka: Kafka = LOGIN, catalog: Catalog = CATALOG, s3: S3 = AWS) -> Platform:
    found = platforms.parse(PLATFORM, "consumer.toml")
    return replace(found, kafka=kafka, s3=s3, lake=replace(found.lake, catalog=catalog))


def told(monkeypatch: pytest.MonkeyPatch, variables: Mapping[str, str], **sections: Any) -> JvmProxies:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return jvm_proxies(platform(**sections))


def test_without_a_proxy_nothing_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(monkeypatch, {"NO_PROXY": "idp.test"}) == JvmProxies()


def test_each_client_goes_through_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS's, too, which HTTPS_PROXY alone says nothing to."""
    found = told(monkeypatch, {"HTTPS_PROXY": PROXY})
    assert found.system == {
        "http.nonProxyHosts": LOOPBACK,
        "https.proxyHost": "proxy.test",
        "https.proxyPort": "3128",
        "http.proxyHost": "proxy.test",
        "http.proxyPort": "3128",
    }
    assert found.catalog == {
        "rest.client.proxy.hostname": "proxy.test",
        "rest.client.proxy.port": "3128",
    }
    assert found.executors["spark.executor.defaultJavaOptions"].startswith("-Dhttp.nonProxyHosts=localhost|")


def test_what_no_proxy_names_is_asked_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a domain, and by a network, as neither Java's client nor AWS's reads it."""
    here = S3("key", "secret", "https://10.1.2.3:9000", path_style=True)
    found = told(monkeypatch, {"HTTPS_PROXY": PROXY, "NO_PROXY": "test,10.0.0.0/8"}, s3=here)
    assert found.catalog == {}
    assert found.system == {
        "http.nonProxyHosts": f"{LOOPBACK}|idp.test|*.idp.test|10.1.2.3|*.10.1.2.3",
    }


def test_aws_clients_do_not_take_a_proxy_to_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which they find in HTTP_PROXY, unless they are told which hosts have none."""
    here = S3("key", "secret", "http://localhost:9000", path_style=True)
    found = told(monkeypatch, {"HTTP_PROXY": PROXY}, s3=here)
    assert "http.proxyHost" not in found.system
    assert found.system["http.nonProxyHosts"].startswith(LOOPBACK)


def test_its_login_is_told_to_those_that_take_one(monkeypatch: pytest.MonkeyPatch) -> None:
    by_login = {"HTTPS_PROXY": "http://us%40er:wo%3Ard@proxy.test:3128"}
    found = told(monkeypatch, by_login, kafka=Kafka("kafka:9093", "SSL"))
    assert found.login == {"http.proxyUser": "us@er", "http.proxyPassword": "wo:rd"}
    assert found.catalog["rest.client.proxy.username"] == "us@er"
    assert found.catalog["rest.client.proxy.password"] == "wo:rd"
    assert "wo:rd" not in f"{found.executors}{found!r}"
    with raising(ProxyUnusable, "executors", "Fix: name one without a login"):
        found.check_executors()
    with raising(ProxyUnusable, "HTTPS_PROXY", "https://idp.test", "without a login") as caught:
        told(monkeypatch, by_login)
    assert "wo" not in str(caught.value).split("names")[1].split("for")[0]


def test_of_glue_and_of_msk_all_goes_by_aws_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = Kafka(
        "kafka:9098", "SASL_SSL", AWS_MSK_IAM, aws_region="eu-central-1", aws_role_arn="arn:aws:iam::1:role/r"
    )
    glue = Catalog(GLUE, region="eu-central-1")
    found = told(
        monkeypatch,
        {"HTTPS_PROXY": PROXY, "NO_PROXY": "glue.eu-central-1.amazonaws.com"},
        kafka=kafka,
        catalog=glue,
    )
    assert found.system["http.proxyHost"] == "proxy.test"
    hosts = found.system["http.nonProxyHosts"]
    assert hosts == f"{LOOPBACK}|glue.eu-central-1.amazonaws.com|*.glue.eu-central-1.amazonaws.com"


@pytest.mark.parametrize(
    ("variables", "texts"),
    [
        ({"HTTPS_PROXY": "socks5://proxy.test:1080"}, ["HTTPS_PROXY names socks5://", "http:// alone"]),
        ({"ALL_PROXY": "https://proxy.test:443"}, ["ALL_PROXY names https://", "http:// alone"]),
        # In one way: its client has one proxy.
        (
            {"HTTPS_PROXY": PROXY, "NO_PROXY": "catalog.test"},
            [
                "for https://idp.test",
                "https://catalog.test is to be asked directly",
                "add idp.test to NO_PROXY",
            ],
        ),
        ({"HTTPS_PROXY": PROXY, "NO_PROXY": "idp.test"}, ["for https://catalog.test", "add catalog.test"]),
    ],
)
def test_what_a_jvm_cannot_go_through_is_refused_by_name(
    variables: dict[str, str], texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with raising(ProxyUnusable, *texts):
        told(monkeypatch, variables)


def test_two_proxies_are_one_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = replace(LOGIN, sasl_oauthbearer_token_endpoint_url="http://idp.test/token")
    both = {"HTTP_PROXY": "http://other.test:3128", "HTTPS_PROXY": PROXY}
    with raising(ProxyUnusable, "one proxy", "Fix:"):
        told(monkeypatch, both, kafka=plain)


def test_a_host_that_is_asked_in_two_ways_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    here = S3("key", "secret", "http://idp.test:9000", path_style=True)
    with raising(ProxyUnusable, "goes by hosts", "idp.test"):
        told(monkeypatch, {"HTTPS_PROXY": PROXY}, s3=here)


def test_executors_ask_for_roles_of_a_web_identity_as_python_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 is reached directly, as by an endpoint of the network, and AWS STS through the proxy alone."""
    none = Kafka("127.0.0.1:9092")
    variables = {"HTTPS_PROXY": PROXY, "NO_PROXY": "s3.eu-central-1.amazonaws.com"}
    direct = f"{LOOPBACK}|s3.eu-central-1.amazonaws.com|*.s3.eu-central-1.amazonaws.com"
    assert told(monkeypatch, variables, kafka=none).system == {"http.nonProxyHosts": direct}
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/token")
    assert told(monkeypatch, variables, kafka=none).system == {
        "http.nonProxyHosts": direct,
        "http.proxyHost": "proxy.test",
        "http.proxyPort": "3128",
    }
    keys = S3("key", "secret", region="eu-central-1")
    assert told(monkeypatch, variables, kafka=none, s3=keys).system == {"http.nonProxyHosts": direct}
