"""One declaration, as each of Kafka's three clients takes it."""

from __future__ import annotations

import base64
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from sluice.clients import backoff
from sluice.clients.kafka.errors import LoginRefused
from sluice.clients.kafka.login import certificates, properties
from sluice.clients.kafka.login.properties import java, kafka_python, librdkafka
from sluice.clients.kafka.login.tokens import Token, tokens
from sluice.clients.polling import wait_for
from sluice.clients.tls import certificates as tls
from sluice.config.platform_sections.kafka import Kafka
from tests.support.certificates import Authority
from tests.support.raising import raising

OAUTH = Kafka(
    "broker:9093",
    "SASL_SSL",
    "OAUTHBEARER",
    ssl_ca_location="/run/ca.pem",
    sasl_oauthbearer_token_endpoint_url="https://issuer.test/token",
    sasl_oauthbearer_client_id="sluice",
    sasl_oauthbearer_client_secret='the "secret"',
    sasl_oauthbearer_scope="kafka",
    sasl_oauthbearer_audience="cluster",
    sasl_oauthbearer_extensions="logicalCluster=lkc-1,identityPoolId=pool-1",
    https_ca_location="/run/issuer.pem",
)
EXTENSIONS = {"logicalCluster": "lkc-1", "identityPoolId": "pool-1"}


def without_log(settings: dict[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in settings.items()
        if key not in ("logger", "oauth_cb") and "backoff" not in key
    }


def test_tokens_of_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "check", lambda kafka: None)
    monkeypatch.setattr(tokens(OAUTH), "_fetch", lambda: Token("value", 0.0, 2e9))
    given = librdkafka(OAUTH)
    value, ends, *rest = given["oauth_cb"]("")
    assert (value, *rest) == ("value", "", EXTENSIONS)
    assert ends - time.time() == pytest.approx(2e9 - backoff.now(), abs=5)
    assert without_log(given) == {
        "bootstrap.servers": "broker:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "ssl.ca.location": "/run/ca.pem",
    }
    provider = kafka_python(OAUTH)["sasl_oauth_token_provider"]
    assert (provider.token(), provider.extensions()) == ("value", EXTENSIONS)
    assert java(OAUTH) == {
        "bootstrap.servers": "broker:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": properties._OAUTH_HANDLER,
        "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'oauth.token.endpoint.uri="https://issuer.test/token" oauth.client.id="sluice" '
        'oauth.client.secret="the \\"secret\\"" oauth.scope="kafka" oauth.audience="cluster" '
        'oauth.access.token.is.jwt="false" oauth.ssl.truststore.location="/run/issuer.pem" '
        'oauth.ssl.truststore.type="PEM" oauth.sasl.extension.logicalCluster="lkc-1" '
        'oauth.sasl.extension.identityPoolId="pool-1";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/run/ca.pem",
    }


def test_a_token_of_a_file_in_java() -> None:
    kafka = Kafka("b:1", "SASL_SSL", "OAUTHBEARER", sasl_oauthbearer_token_endpoint_url="file:///run/token")
    assert java(kafka)["sasl.jaas.config"].endswith('required oauth.access.token.location="/run/token";')


def test_aws(monkeypatch: Any) -> None:
    kafka = Kafka("b:9098", "SASL_SSL", "AWS_MSK_IAM", aws_region="eu-central-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    given = librdkafka(kafka)
    assert given["sasl.mechanism"] == "OAUTHBEARER", "MSK takes it beside its own"
    value, ends, _, extensions = given["oauth_cb"]("")
    assert value
    assert extensions == {}
    assert ends - time.time() == pytest.approx(900, abs=5)
    assert kafka_python(kafka)["sasl_oauth_token_provider"].token() == value
    assert java(kafka) == {
        "bootstrap.servers": "b:9098",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
        "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
    }
    role = Kafka("b:9098", "SASL_SSL", "AWS_MSK_IAM", aws_region="eu-central-1", aws_role_arn="arn:x")
    assert java(role)["sasl.jaas.config"].endswith('awsRoleArn="arn:x" awsStsRegion="eu-central-1";')


def test_a_certificate_with_its_key_in_one_file(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).issue("sluice", passphrase="phrase")
    both = tmp_path / "tls.pem"
    both.write_text(key.read_text() + certificate.read_text())
    kafka = Kafka("b:1", "SSL", ssl_certificate_location=str(both), ssl_key_password="phrase")
    assert without_log(librdkafka(kafka)) == {
        "bootstrap.servers": "b:1",
        "security.protocol": "SSL",
        "ssl.certificate.location": str(both),
        "ssl.key.location": str(both),
        "ssl.key.password": "phrase",
    }
    assert kafka_python(kafka) == {
        "bootstrap_servers": ["b:1"],
        "security_protocol": "SSL",
        "ssl_certfile": str(both),
        "ssl_keyfile": None,
        "ssl_password": "phrase",
    }
    given = java(kafka)
    assert given["ssl.keystore.type"] == "PKCS12"
    assert held(given) == "sluice"


def held(settings: dict[str, str]) -> str:
    """Whose certificate a keystore has, with its key."""
    content = Path(settings["ssl.keystore.location"]).read_bytes()
    found = pkcs12.load_key_and_certificates(content, settings["ssl.keystore.password"].encode())
    assert found[0] is not None
    assert found[1] is not None
    (name,) = found[1].subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(name.value)


def test_java_s_keystore_is_kept_as_new_as_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "KEYSTORE_SECONDS", 0.02)
    authority = Authority(tmp_path)
    certificate, key = map(str, authority.issue("before", file="tls"))
    kafka = Kafka("b:1", "SSL", ssl_certificate_location=certificate, ssl_key_location=key)
    given = java(kafka)
    kept = Path(given["ssl.keystore.location"])
    assert held(given) == "before"
    assert kept.parent.stat().st_mode & 0o077 == 0
    assert java(kafka) == given
    assert given["ssl.keystore.password"] not in repr(tls.keystore(certificates.client_certificate(kafka)))
    authority.issue("after", file="tls")
    assert wait_for(lambda: held(given), 20, 0.02, lambda name: name == "after") == "after"


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"ssl_ca_location": "/none.pem"}, "ssl_ca_location: CA /none.pem cannot be used (No such file"),
        ({"ssl_key_password": "wrong"}, "cannot be used ("),
        ({"ssl_key_location": ""}, "cannot be used ("),
    ],
)
def test_files_that_cannot_be_used_are_named_before_a_client_is_made(
    tmp_path: Path, keys: dict[str, Any], said: str
) -> None:
    certificate, key = Authority(tmp_path).issue("sluice", passphrase="phrase")
    files = {"ssl_certificate_location": str(certificate), "ssl_key_location": str(key)}
    kafka = Kafka("b:1", "SSL", **({**files, "ssl_key_password": "phrase"} | keys))
    for client in (librdkafka, kafka_python, java):
        with raising(LoginRefused, said, "Fix: put readable PEM files there"):
            client(kafka)


SECRET = "".join(map(chr, range(0x20, 0x7F))) + "\n\r\té€"


ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}


def read_by_java(text: str) -> dict[str, str]:
    """Options of JAAS, as Kafka's parser reads them: java.io.StreamTokenizer's quotes."""
    found: dict[str, str] = {}
    for name, value in re.findall(r'([\w.]+)="((?:[^"\\\n\r]|\\.)*)"', text):
        found[name] = re.sub(
            r"\\(.)", lambda one: {"n": "\n", "r": "\r", "t": "\t"}.get(one[1], one[1]), value
        )
    return found


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_password_of_any_characters_is_the_same_for_all_clients(mechanism: str) -> None:
    kafka = Kafka("b:1", "SASL_PLAINTEXT", mechanism, "a=b,c", SECRET)
    assert librdkafka(kafka)["sasl.password"] == SECRET
    assert kafka_python(kafka)["sasl_plain_password"] == SECRET
    given = read_by_java(java(kafka)["sasl.jaas.config"])
    assert given == {"username": "a=b,c", "password": SECRET}
    name = kafka_python(kafka)["sasl_plain_username"]
    assert name == ("a=b,c" if mechanism == "PLAIN" else "a=3Db=2Cc"), "librdkafka and Java escape it"


def test_a_client_s_secret_of_any_visible_characters_is_sent_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As Java's client does: Base64 of both, with a colon between."""
    secret = "".join(map(chr, range(0x21, 0x7F)))
    sent: list[str] = []

    def handle(request: httpx.Request) -> httpx.Response:
        sent.append(base64.b64decode(request.headers["Authorization"].removeprefix("Basic ")).decode())
        return httpx.Response(200, json={"access_token": "t"})

    monkeypatch.setattr(httpx.Client, "_init_transport", lambda *_, **__: httpx.MockTransport(handle))
    kafka = replace(OAUTH, sasl_oauthbearer_client_secret=secret, ssl_ca_location="", https_ca_location="")
    assert tokens(kafka).current().value == "t"
    assert sent == [f"sluice:{secret}"]
    assert read_by_java(java(kafka)["sasl.jaas.config"])["oauth.client.secret"] == secret
